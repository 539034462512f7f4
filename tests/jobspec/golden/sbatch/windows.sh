#!/bin/bash
#SBATCH --job-name=windows
#SBATCH --time=1:00:00

echo "from Windows"
