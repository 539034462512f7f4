"""How tasks are isolated on the nodes of a Slurm cluster."""
