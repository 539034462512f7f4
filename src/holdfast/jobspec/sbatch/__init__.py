"""Batch scripts of Slurm: a script with `#SBATCH` lines -> Job."""

from .script import is_plain_script, is_sbatch_script
from .script_job import read_sbatch_job, render_sbatch_script
from .values import list_array_indices

__all__ = ["is_plain_script", "is_sbatch_script", "list_array_indices", "read_sbatch_job", "render_sbatch_script"]
