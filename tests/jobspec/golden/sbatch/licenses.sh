#!/bin/bash -l
#SBATCH -N 1 -C cpu -q debug -t 30:00
#SBATCH -L solver,viewer
#SBATCH --mail-type=END
#SBATCH --mail-type=FAIL
#SBATCH --mail-user=ada
#SBATCH --array 1-3%8
# #SBATCH --partition=YOUR_PARTITION
./run.sh
