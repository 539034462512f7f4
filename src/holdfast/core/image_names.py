"""Names of images in registries, as Docker reads them: `[HOST[:PORT]/]PATH[:TAG][@sha256:DIGEST]`."""

from __future__ import annotations

import re
from dataclasses import dataclass
from urllib.parse import urlsplit

DOCKER_HUB = "docker.io"
_DOCKER_HUB_ALIASES = frozenset({"docker.io", "index.docker.io", "registry-1.docker.io", "hub.docker.com"})
_DOCKER_HUB_ADDRESS = "registry-1.docker.io"
_MAX_NAME_LENGTH = 255  # characters of host and path
_LABEL = r"(?:[A-Za-z0-9]|[A-Za-z0-9][A-Za-z0-9-]{0,61}[A-Za-z0-9])"
_HOST_PATTERN = re.compile(rf"(?:{_LABEL}(?:\.{_LABEL})*|\[[0-9A-Fa-f:]{{2,45}}\])(?::[0-9]{{1,5}})?")
_PATH_PATTERN = re.compile(r"[a-z0-9]+(?:(?:\.|_|__|-+)[a-z0-9]+)*(?:/[a-z0-9]+(?:(?:\.|_|__|-+)[a-z0-9]+)*)*")
_TAG_PATTERN = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,127}")
_DIGEST_PATTERN = re.compile(r"sha256:[0-9a-f]{64}")


@dataclass(frozen=True, slots=True, kw_only=True)
class ImageReference:
    """An image in a registry. With a digest, the tag is only for display."""

    registry: str  # host, with its port if it names one
    repository: str
    tag: str = ""
    digest: str = ""

    def __str__(self) -> str:
        tag = f":{self.tag}" if self.tag else ""
        return f"{self.registry}/{self.repository}{tag}" + (f"@{self.digest}" if self.digest else "")

    @property
    def version(self) -> str:
        """What to ask the registry for."""
        return self.digest or self.tag


def parse_reference(name: str, default_registry: str = DOCKER_HUB) -> ImageReference | None:
    """Parse a name; None if it is not valid. A missing tag is `latest`."""
    rest, has_digest, digest = name.partition("@")
    if len(name) > 2 * _MAX_NAME_LENGTH or (has_digest and not is_digest(digest)):
        return None
    rest, tag = _split_tag(rest)
    first, has_host, path = rest.partition("/")
    if has_host and _is_host(first):
        registry = first.lower()
    else:
        registry, path = default_registry, rest
    registry = DOCKER_HUB if registry in _DOCKER_HUB_ALIASES else registry
    if registry == DOCKER_HUB and "/" not in path:
        path = f"library/{path}"
    if tag is None or not is_host(registry) or not _PATH_PATTERN.fullmatch(path) or len(rest) > _MAX_NAME_LENGTH:
        return None
    return ImageReference(registry=registry, repository=path, tag=tag or ("" if digest else "latest"), digest=digest)


def _split_tag(text: str) -> tuple[str, str | None]:
    """Split `NAME:TAG`; a colon before a slash belongs to a port. The tag is empty if missing, None if not valid."""
    name, colon, tag = text.rpartition(":")
    if not colon or "/" in tag:
        return text, ""
    return name, tag if _TAG_PATTERN.fullmatch(tag) else None


def _is_host(part: str) -> bool:
    """Return whether the first part of a name is a host; otherwise it is the first part of the path."""
    return "." in part or ":" in part or part == "localhost" or part != part.lower()


def is_host(text: str) -> bool:
    """Return whether it is a valid host, with or without a port."""
    return len(text) <= _MAX_NAME_LENGTH and _HOST_PATTERN.fullmatch(text) is not None


def is_digest(text: object) -> bool:
    return isinstance(text, str) and _DIGEST_PATTERN.fullmatch(text) is not None


def get_registry_address(registry: str) -> str:
    """Return the host that serves a registry: Docker Hub's differs from its name."""
    return _DOCKER_HUB_ADDRESS if registry == DOCKER_HUB else registry


def get_registry_host(name: str) -> str:
    """Return the registry that an image name refers to."""
    first, slash, _ = name.partition("/")
    return normalize_registry(first) if slash and _is_host(first) else DOCKER_HUB


def normalize_registry(address: str) -> str:
    """Return the host of a registry that is given as a host or a URL; Docker Hub if it is empty."""
    host = urlsplit(address if "//" in address else f"//{address}").netloc.lower().rpartition("@")[2]
    return DOCKER_HUB if not host or host in _DOCKER_HUB_ALIASES else host


def list_name_variants(name: str) -> set[str]:
    """Return all spellings of an image name: no tag means `latest`, no registry means Docker Hub."""
    bare = name.removesuffix(":latest")
    reference = parse_reference(name)
    return {bare, f"{bare}:latest", *([str(reference)] if reference else ())}
