#!/bin/bash -l
# Standard MPI job on one node
#SBATCH -o ./job.out.%j
#SBATCH -e ./job.err.%j
#SBATCH -D /work/mpi
#SBATCH -J test_mpi
#SBATCH --nodes=1
#SBATCH --ntasks-per-node=8
#SBATCH --cpus-per-task=1
#SBATCH --mail-type=none
#SBATCH --mail-user=userid@example.mpg.de
#SBATCH --time=24:00:00

module purge
module load intel/21.2.0 impi/2021.2

mpirun -np $SLURM_NTASKS ./myprog > prog.out
