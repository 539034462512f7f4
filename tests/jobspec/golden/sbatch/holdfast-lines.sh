#!/bin/bash
#SBATCH --job-name=on-docker --cpus-per-task=2
#HOLDFAST image: python:3.12
#HOLDFAST engine: docker
#HOLDFAST datasets: [imagenet]
#HOLDFAST hold: 2h
#HOLDFAST tags:
#HOLDFAST   - vision
#HOLDFAST   - nightly
python train.py
