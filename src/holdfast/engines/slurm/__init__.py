"""The Slurm engine: runs each task as a job of a Slurm cluster, from a submit host with a shared folder."""

from .engine import SlurmEngine
from .options import SlurmOptions

__all__ = ["SlurmEngine", "SlurmOptions"]
