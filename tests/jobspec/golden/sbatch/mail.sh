#!/bin/bash
#SBATCH --job-name=mail
#SBATCH --mail-type=BEGIN,END,FAIL,TIME_LIMIT_80
#SBATCH --mail-user=ada@example.org,grace@example.org
true
