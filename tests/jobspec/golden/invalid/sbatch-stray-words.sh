#!/bin/bash
#SBATCH --job-name my long name
#SBATCH -N=1
#SBATCH --partition
#SBATCH --requeue=yes
#SBATCH --comment="never closed
echo
