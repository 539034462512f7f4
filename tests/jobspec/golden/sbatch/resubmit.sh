#!/bin/bash
#SBATCH --job-name=chain
#SBATCH --time=3-12
./simulate --resume
if [ ! -e finished ]; then
    sbatch "$0"
fi
