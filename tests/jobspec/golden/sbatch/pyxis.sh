#!/bin/bash
#SBATCH --job-name=pyxis
#SBATCH --nodes=1 --tasks-per-node=1
#SBATCH --gpus=1
#SBATCH --container-image="nvcr.io#nvidia/pytorch:24.01-py3"
#SBATCH --container-mounts=/data:/data,/datasets:/mnt/datasets:ro
#SBATCH --container-workdir=/data/run
#SBATCH --container-writable --container-name=torch
#SBATCH--time=20:00:00
#SBATCH --chdir=./
python train.py
