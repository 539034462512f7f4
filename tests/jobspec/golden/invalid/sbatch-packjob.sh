#!/bin/bash
#SBATCH --ntasks=1 : --ntasks=4
srun ./run.app
