#!/bin/bash
#SBATCH --job-name=markers
#SBTACH --mem=4G
# SBATCH --time=10
#sbatch --cpus-per-task=2
#PBS -l walltime=1:00:00
echo "with defaults"
#SBATCH --mem=8G
