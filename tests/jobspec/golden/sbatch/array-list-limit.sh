#!/bin/bash
#SBATCH --array=1,3,5-7,20-30:5%4
#SBATCH --job-name=cases
#HOLDFAST retry: 2
./case.sh "$SLURM_ARRAY_TASK_ID"
