#!/bin/bash
#SBATCH --job-name=array
#SBATCH --array=1-10
#SBATCH --output=slurm-%A_%a.out
#SBATCH --time=01:00:00
#SBATCH --mem=2G

INPUT=$(sed -n "${SLURM_ARRAY_TASK_ID}p" inputs.txt)
./process "$INPUT"
