"""Which engine a simulation uses, and where its daemon listens."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from holdfast.core.errors import UserError
from holdfast.settings import Settings

from .podman_service import make_socket_path

SANDBOX, DOCKER, PODMAN = "sandbox", "docker", "podman"
_DEFAULT_SOCKET = "/var/run/docker.sock"


@dataclass(frozen=True, slots=True)
class EngineChoice:
    name: str = SANDBOX  # or docker, podman
    socket: str = ""  # of Docker, or of Podman's service for this simulation

    def __str__(self) -> str:
        return f"{self.name} {self.socket}".strip()


def parse_choice(text: str) -> EngineChoice:
    """Parse the text of a choice; empty is the sandbox."""
    name, _, socket = text.partition(" ")
    return EngineChoice(name or SANDBOX, socket)


def choose_engine(wanted: str | None, settings: Settings, environ: Mapping[str, str]) -> EngineChoice:
    """Return the engine that the user wants, else the one of the settings."""
    if wanted is None and settings.engine.kind == "docker":
        return EngineChoice(DOCKER, settings.engine.socket)
    if wanted == DOCKER:
        return EngineChoice(DOCKER, find_docker_socket(settings, environ))
    if wanted == PODMAN:
        return EngineChoice(PODMAN, make_socket_path())
    return EngineChoice()


def find_fallback(settings: Settings, environ: Mapping[str, str]) -> EngineChoice | None:
    """Return the engine for a machine without a sandbox: Docker, if this user has access to it."""
    try:
        socket = find_docker_socket(settings, environ)
    except UserError:
        return None
    return EngineChoice(DOCKER, socket) if os.access(socket, os.W_OK) else None


def find_docker_socket(settings: Settings, environ: Mapping[str, str]) -> str:
    """Return the socket in DOCKER_HOST, else the first one that this user can use."""
    address = environ.get("DOCKER_HOST", "")
    if address and not address.startswith("unix://"):
        raise UserError(
            f"DOCKER_HOST is {address}: only daemons on this machine are supported",
            hint="Unset DOCKER_HOST, or set it to a Unix socket, such as unix:///var/run/docker.sock.",
        )
    if address:
        return address.removeprefix("unix://")
    paths = list(_iter_socket_paths(settings, environ))
    usable = (path for path in paths if os.access(path, os.W_OK))
    existing = (path for path in paths if Path(path).exists())
    return next(usable, None) or next(existing, paths[0])


def _iter_socket_paths(settings: Settings, environ: Mapping[str, str]) -> Iterator[str]:
    yield settings.engine.socket
    yield _DEFAULT_SOCKET
    if folder := environ.get("XDG_RUNTIME_DIR"):
        yield f"{folder}/docker.sock"  # of a rootless daemon
