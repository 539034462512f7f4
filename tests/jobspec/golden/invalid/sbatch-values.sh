#!/bin/bash
#SBATCH --time=1h
#SBATCH --mem=4.5G
#SBATCH --cpus-per-task=four
#SBATCH --array=10-1
#SBATCH --nodes=two
#SBATCH --gpus=many
#SBATCH --signal=B:NOPE@10
#SBATCH --mail-type=ENDE
#SBATCH --nice=low
#SBATCH --ntasks=0
echo
