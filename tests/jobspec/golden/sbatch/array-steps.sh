#!/bin/bash
#SBATCH -a 0-100:25
#SBATCH -J sweep
python sweep.py --seed "$SLURM_ARRAY_TASK_ID" --step "$SLURM_ARRAY_TASK_STEP"
