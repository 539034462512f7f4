"""Finds the endpoint of a URL."""

from __future__ import annotations

import re
from collections.abc import Iterable
from urllib.parse import unquote

from .endpoints import Endpoint

PREFIX = "/rest-server"

_Segments = tuple[str, ...]
_SUBMIT_PATH_PATTERNS = {
    "POST": re.compile(r"/rest-server/api/(v2/jobs|v1/user/[^/]+/jobs)/?"),
    "PUT": re.compile(r"/rest-server/api/v1/user/[^/]+/jobs/[^/]+/?"),
}


def accepts_job_file(method: str, path: str) -> bool:
    """Return whether a job file can be sent to this path; it can be larger than other bodies."""
    return method in _SUBMIT_PATH_PATTERNS and _SUBMIT_PATH_PATTERNS[method].fullmatch(path) is not None


class EndpointRoutes:
    """A name in braces matches one segment of a path; as the last segment, {name:path} matches the rest."""

    def __init__(self, endpoints: Iterable[Endpoint]) -> None:
        self._fixed_length_routes: dict[tuple[str, int], list[tuple[_Segments, Endpoint]]] = {}
        self._open_ended_routes: list[tuple[_Segments, Endpoint]] = []
        for each in endpoints:
            parts = _split_path(f"/api{each.path}")
            if parts[-1].endswith(":path}"):
                self._open_ended_routes.append((parts, each))
            else:
                self._fixed_length_routes.setdefault((each.method, len(parts)), []).append((parts, each))
        for same_length in self._fixed_length_routes.values():
            same_length.sort(key=lambda known: [part.startswith("{") for part in known[0]])  # literal segments first

    def find_endpoint(self, method: str, path: str) -> tuple[Endpoint, dict[str, str]] | None:
        """Find an endpoint by the path below the prefix, as it was sent: each segment is decoded once."""
        given = tuple(unquote(part) for part in _split_path(path))
        for parts, each in self._fixed_length_routes.get((method, len(given)), ()):
            found = _match_segments(parts, given)
            if found is not None:
                return each, found
        for parts, each in self._open_ended_routes:
            last = len(parts) - 1
            if each.method == method and len(given) > last:
                found = _match_segments(parts[:-1], given[:last])
                if found is not None:
                    return each, {**found, parts[-1][1:].removesuffix(":path}"): "/".join(given[last:])}
        return None


def _split_path(path: str) -> _Segments:
    return tuple(path.removesuffix("/").split("/"))


def _match_segments(parts: _Segments, given: _Segments) -> dict[str, str] | None:
    found: dict[str, str] = {}
    for part, text in zip(parts, given, strict=True):
        if part.startswith("{"):
            if not text:
                return None
            found[part[1:-1]] = text
        elif part != text:
            return None
    return found
