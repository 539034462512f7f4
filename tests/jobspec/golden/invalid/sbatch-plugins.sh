#!/bin/bash
#SBATCH --container-image=/images/pytorch.sqsh
#SBATCH --container-mounts=data:/data
#SBATCH --environment=vllm
#SBATCH --ear=off
#SBATCH --image=docker:lab/neuron:v5
python train.py
