#!/bin/bash
#SBATCH --cpus-per-task=4 --mem=16G --ntasks=1
#SBATCH hetjob
#SBATCH --cpus-per-task=2 --mem=1G --ntasks=8
srun ./run.app
