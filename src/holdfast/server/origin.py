"""The origin at which clients reach the portal, for links, cookies and the origin check of forms."""

from __future__ import annotations

import re
from functools import lru_cache
from urllib.parse import urlsplit

from starlette.requests import HTTPConnection

_HOST_PATTERN = re.compile(r"[A-Za-z0-9._\-\[\]:]{1,255}")
_DEFAULT_PORTS = {"http": 80, "https": 443}


def get_origin(request: HTTPConnection) -> str:
    """Return the origin of `server.public_url`; if not set, the one that the client sent."""
    public = get_public_origin(request)
    if public:
        return public
    scheme = "https" if request.url.scheme in ("https", "wss") else "http"
    host = request.headers.get("host", "")
    return f"{scheme}://{host if _HOST_PATTERN.fullmatch(host) else 'localhost'}"


def get_host(request: HTTPConnection) -> str:
    """Return the host name or address without scheme and port, for programs other than a browser."""
    try:
        return urlsplit(get_origin(request)).hostname or "localhost"
    except ValueError:  # unbalanced brackets
        return "localhost"


def get_public_origin(request: HTTPConnection) -> str:
    """Return the origin of `server.public_url` as browsers write it; empty if not set."""
    return _parse_origin(request.app.state.services.settings.server.public_url)


@lru_cache(maxsize=16)
def _parse_origin(url: str) -> str:
    if not url:
        return ""
    parts = urlsplit(url)
    name = parts.hostname or ""
    host = f"[{name}]" if ":" in name else name
    is_default = parts.port in (None, _DEFAULT_PORTS.get(parts.scheme))
    return f"{parts.scheme}://{host}" + ("" if is_default else f":{parts.port}")
