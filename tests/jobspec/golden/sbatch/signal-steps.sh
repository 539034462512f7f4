#!/bin/bash
#SBATCH --time=10
#SBATCH --signal=SIGUSR2
./solver
