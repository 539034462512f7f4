"""What PrimeHub put around the command of a job, put around it here: folders, links, variables, the group's profile."""

from .dress import dress_primehub

__all__ = ["dress_primehub"]
