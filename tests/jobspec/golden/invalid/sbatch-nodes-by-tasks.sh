#!/bin/bash
#SBATCH --ntasks=64 --ntasks-per-node=16
mpirun ./app
