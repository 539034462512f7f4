"""Runs tasks on this machine, each in a sandbox of its own."""

from .engine import EmbeddedEngine
from .options import EmbeddedOptions

__all__ = ["EmbeddedEngine", "EmbeddedOptions"]
