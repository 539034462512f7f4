"""Names of images, read as Docker does."""

from __future__ import annotations

from urllib.parse import urlsplit

DOCKER_HUB = "docker.io"
_DOCKER_HUB_HOSTS = frozenset({"docker.io", "index.docker.io", "registry-1.docker.io", "hub.docker.com"})


def get_registry_host(name: str) -> str:
    """Return the registry that an image name refers to."""
    first, slash, _ = name.partition("/")
    is_host = bool(slash) and ("." in first or ":" in first or first == "localhost")
    return normalize_registry(first) if is_host else DOCKER_HUB


def normalize_registry(address: str) -> str:
    """Return the host of a registry that is given as a host or a URL; Docker Hub if it is empty."""
    host = urlsplit(address if "//" in address else f"//{address}").netloc.lower().rpartition("@")[2]
    return DOCKER_HUB if not host or host in _DOCKER_HUB_HOSTS else host
