#!/bin/bash
#SBATCH --array=1-8%1
#SBATCH --mail-user=nobody
#SBATCH --mail-type=END
#SBATCH --chdir=results
#SBATCH --export=HOME,MODE=fast
./continue.sh
