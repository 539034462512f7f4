#!/bin/bash
#SBATCH --job-name=lines
#HOLDFAST imgae: python
#HOLDFAST datasets: imagenet
#SBATCH --container=/images/bundle
#SBATCH --wrap=hostname
echo
