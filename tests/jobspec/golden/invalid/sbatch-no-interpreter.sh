#SBATCH --job-name=lost
#SBATCH --time=10
echo hello
