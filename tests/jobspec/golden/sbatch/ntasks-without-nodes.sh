#!/bin/bash
#SBATCH --ntasks=24
#SBATCH --mem-per-cpu=2G
#SBATCH --ntasks-per-core=1
mpiexec ./app
