#!/bin/bash
#SBATCH --ntasks=2 : --ntasks=5
srun ./planner
