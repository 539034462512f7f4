"""The PrimeHub runtime around the command of a job: folders, links, variables, the group's profile."""

from .runtime import add_primehub_runtime

__all__ = ["add_primehub_runtime"]
