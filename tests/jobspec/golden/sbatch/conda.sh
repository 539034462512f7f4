#!/bin/bash -l
#SBATCH --job-name=conda-env
#SBATCH --cpus-per-task=4
#SBATCH --mem=16GB
#SBATCH --time=4:00:00
#SBATCH --get-user-env
#SBATCH --export=NONE

source ~/miniconda3/etc/profile.d/conda.sh
conda activate ml
python -u train.py
