#!/bin/bash
#SBATCH --mail-type=ALL
true
