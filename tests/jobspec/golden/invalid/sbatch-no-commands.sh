#!/bin/bash
#SBATCH --job-name=empty

# nothing follows
