"""Names of images, read as Docker does."""

from __future__ import annotations

DOCKER_HUB = "docker.io"


def get_registry_host(name: str) -> str:
    """Return the registry that an image name refers to."""
    first, slash, _ = name.partition("/")
    is_host = bool(slash) and ("." in first or ":" in first or first == "localhost")
    return first.lower() if is_host and first != "index.docker.io" else DOCKER_HUB
