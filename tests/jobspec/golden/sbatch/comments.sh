#!/bin/bash
# A comment before the options
#SBATCH --job-name=comments   # a comment after a value
##SBATCH --partition=old
#  #SBATCH --mem=1T
#SBATCH --comment="weekly run # 12"

    # an indented comment
#SBATCH --nice=50
echo done
