"""What PrimeHub put around the command of a job, put around it here: folders, links, variables, the group's profile."""

from .runtime import dress_primehub

__all__ = ["dress_primehub"]
