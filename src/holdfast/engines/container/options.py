"""Options of the container engine."""

from __future__ import annotations

import os
from dataclasses import dataclass, field

from holdfast.engines.embedded.options import EmbeddedOptions


@dataclass(frozen=True, slots=True, kw_only=True)
class ContainerOptions(EmbeddedOptions):
    """Those of the machine and of the tasks' folders, and how to reach the daemon."""

    socket: str = "/var/run/docker.sock"  # of Docker, or of Podman's service
    installation_id: str = ""  # distinguishes servers that share a daemon; empty: derived from the state folder
    network: str = "host"  # network mode of the containers
    daemon_interval: float = 5.0  # seconds between two checks that the daemon responds
    has_root: bool = field(default_factory=lambda: os.geteuid() == 0)  # what works without it: see limitations.py
    guards_state: bool = True  # refuse mounts that show the state folder or the daemon's socket
