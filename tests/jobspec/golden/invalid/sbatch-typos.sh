#!/bin/bash
#SBATCH --job-nmae=typo
#SBATCH --ntask-per-node=4
#SBATCH --gpu=1
#SBATCH --cpu-per-task=4
#SBATCH -Z 3
#SBATCH --memory=4G
echo
