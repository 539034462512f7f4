"""The address at which clients reach the portal, for links, cookies and the check where a form comes from."""

from __future__ import annotations

import re
from functools import lru_cache
from urllib.parse import urlsplit

from starlette.requests import HTTPConnection

_HOST = re.compile(r"[A-Za-z0-9._\-\[\]:]{1,255}")
_DEFAULT_PORTS = {"http": 80, "https": 443}


def origin_of(request: HTTPConnection) -> str:
    """The origin of `server.public_url`; where that is not set, what the client wrote."""
    public = public_origin(request)
    if public:
        return public
    scheme = "https" if request.url.scheme in ("https", "wss") else "http"
    host = request.headers.get("host", "")
    return f"{scheme}://{host if _HOST.fullmatch(host) else 'localhost'}"


def host_of(request: HTTPConnection) -> str:
    """The same without scheme and port: a name or an address, for other programs than a browser."""
    try:
        return urlsplit(origin_of(request)).hostname or "localhost"
    except ValueError:  # brackets that do not match
        return "localhost"


def public_origin(request: HTTPConnection) -> str:
    """Of `server.public_url`, as browsers write it; empty where that is not set."""
    return _origin(request.app.state.services.settings.server.public_url)


@lru_cache(maxsize=16)
def _origin(url: str) -> str:
    if not url:
        return ""
    parts = urlsplit(url)
    name = parts.hostname or ""
    host = f"[{name}]" if ":" in name else name
    is_default = parts.port in (None, _DEFAULT_PORTS.get(parts.scheme))
    return f"{parts.scheme}://{host}" + ("" if is_default else f":{parts.port}")
