#!/bin/bash
#SBATCH --gres=gpu:v100:1,tmpfs:20G,nvme:1
#SBATCH -t 30:00
cp -r data "$TMPDIR"
python run.py
