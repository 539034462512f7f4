#!/bin/bash
echo "no options at all"
#SBATCH --time=10
