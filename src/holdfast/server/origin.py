"""The address at which a client reached us, for answers that hold whole addresses."""

from __future__ import annotations

import re
from urllib.parse import urlsplit

from starlette.requests import HTTPConnection

_HOST = re.compile(r"[A-Za-z0-9._\-\[\]:]{1,255}")


def origin_of(request: HTTPConnection) -> str:
    """As the client wrote it."""
    proxied = request.headers.get("x-forwarded-proto", "").strip().lower()
    scheme = proxied if proxied in ("http", "https") else request.url.scheme
    host = request.headers.get("host", "")
    return f"{scheme}://{host if _HOST.fullmatch(host) else 'localhost'}"


def host_of(request: HTTPConnection) -> str:
    """The same without scheme and port: a name or an address, for other programs than a browser."""
    try:
        return urlsplit(origin_of(request)).hostname or "localhost"
    except ValueError:  # brackets that do not match
        return "localhost"
