#!/bin/bash
#SBATCH -J hello-mpi -n 4 -t 0-00:30 --mem-per-cpu=1024
module load openmpi
srun ./hello_mpi
