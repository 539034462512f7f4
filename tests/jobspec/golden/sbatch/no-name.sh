#!/bin/bash
#SBATCH --time=90
sleep 10
