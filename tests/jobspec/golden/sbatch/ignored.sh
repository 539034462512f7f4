#!/bin/bash
#SBATCH --exclusive
#SBATCH --hint=nomultithread --distribution=block:block
#SBATCH -x node[01-04] -w node07
#SBATCH --no-requeue -v --tmp=20G
#SBATCH --threads-per-core=1
#SBATCH --reservation=course --wait --begin=now
./app
