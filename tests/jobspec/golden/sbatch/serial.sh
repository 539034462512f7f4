#!/bin/bash
#SBATCH --job-name=serial-test
#SBATCH --time=00:10:00
#SBATCH --mem=500M

echo "Running on $(hostname) as job $SLURM_JOB_ID"
./my_program input.dat
