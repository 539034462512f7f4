#!/bin/bash
#SBATCH --job=abbreviated --part=short
#SBATCH --workdir=/scratch/run
pwd
