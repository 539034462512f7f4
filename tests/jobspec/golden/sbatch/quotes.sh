#!/bin/bash
#SBATCH --job-name='two words' --comment "say \"hello\""
#SBATCH --export=ALL,MODE=fast,LEVEL=3
echo "$MODE"
