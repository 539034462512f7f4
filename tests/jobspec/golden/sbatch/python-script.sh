#!/usr/bin/env python3
#SBATCH --job-name=python
#SBATCH --time=5
import os

print("job", os.environ["SLURM_JOB_ID"])
