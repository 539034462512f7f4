#!/bin/bash
#SBATCH --ntasks=1 --cpus-per-task=12 --mem=48G
#SBATCH hetjob
#SBATCH --ntasks=6 --cpus-per-task=1 --mem=3G
srun ./reader : ./writers
