#!/bin/bash
#SBATCH --job-name=typed
#SBATCH --gpus=a100:4
#SBATCH --constraint="a100&nvlink"
#SBATCH --cpus-per-gpu=8
#SBATCH --mem-per-gpu=40G
torchrun --nproc_per_node=$SLURM_GPUS_ON_NODE train.py
