#!/bin/bash
#SBATCH --job-name=second
#SBATCH --dependency=afterok:12345
#SBATCH --begin=2027-01-01T06:00
#SBATCH -H
#SBATCH --licenses=matlab:1
./postprocess
