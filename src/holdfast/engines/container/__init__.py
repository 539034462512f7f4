"""The container engine: runs each task in a container of Docker or Podman on this machine."""

from .engine import ContainerEngine
from .options import ContainerOptions

__all__ = ["ContainerEngine", "ContainerOptions"]
