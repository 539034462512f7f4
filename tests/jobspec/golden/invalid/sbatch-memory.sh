#!/bin/bash
#SBATCH --mem=0
#SBATCH --mem-per-cpu=2G
#SBATCH --mem-per-gpu=10G
echo
