#!/bin/bash
#SBATCH --time=UNLIMITED
#SBATCH --mem=1T --mincpus=4
./forever
