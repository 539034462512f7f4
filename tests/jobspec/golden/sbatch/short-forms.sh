#!/bin/bash
#SBATCH -Jshort -N1 -n1 -c4 -t1-0 -pdebug -Aproj -QO
#SBATCH -i input.txt
cat
