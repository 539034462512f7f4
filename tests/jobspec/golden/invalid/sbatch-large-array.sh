#!/bin/bash
#SBATCH --array=0-20000
echo
