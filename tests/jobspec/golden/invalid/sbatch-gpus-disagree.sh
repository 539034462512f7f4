#!/bin/bash
#SBATCH --gpus=2
#SBATCH --gres=gpu:4
echo
