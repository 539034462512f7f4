#!/bin/sh
#SBATCH -J tiny
date
