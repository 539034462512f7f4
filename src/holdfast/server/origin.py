"""The address at which a client reached us, for answers that hold whole addresses."""

from __future__ import annotations

import re

from starlette.requests import HTTPConnection

_HOST = re.compile(r"[A-Za-z0-9._\-\[\]:]{1,255}")


def origin_of(request: HTTPConnection) -> str:
    """As the client wrote it."""
    proxied = request.headers.get("x-forwarded-proto", "").strip().lower()
    scheme = proxied if proxied in ("http", "https") else request.url.scheme
    host = request.headers.get("host", "")
    return f"{scheme}://{host if _HOST.fullmatch(host) else 'localhost'}"
