#!/bin/bash
#SBATCH --job-name=ddp
#SBATCH --nodes=1 --ntasks-per-node=4 --gpus-per-task=1 --cpus-per-task=6
#SBATCH --gpus-per-node=4
#SBATCH --qos=normal
torchrun --nproc_per_node=4 train.py
