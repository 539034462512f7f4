#!/bin/bash -l
# Heat flow through a plate: eight ranks that share one machine
#SBATCH -J plate-heat -D /projects/plate
#SBATCH -o heat-%j.log -e heat-%j.err
#SBATCH --nodes=1 --ntasks-per-node=8 --cpus-per-task=1
#SBATCH --mail-type=none
#SBATCH --mail-user=ada@example.org
#SBATCH --time=24:00:00

module load mpi
mpirun -np $SLURM_NTASKS ./heat --grid 4096 > temperatures.txt
