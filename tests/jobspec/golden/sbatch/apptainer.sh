#!/bin/bash
#SBATCH --job-name=apptainer
#SBATCH --cpus-per-task=2 --mem=8G
#SBATCH --time=1:30:00
module load apptainer
apptainer exec --nv docker://python:3.12 python script.py
