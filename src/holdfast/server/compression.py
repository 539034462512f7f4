"""Gzip compression of responses."""

from __future__ import annotations

import asyncio
import gzip

from starlette.requests import Request
from starlette.responses import Response

MIN_COMPRESSED_SIZE = 1024  # bytes
MIN_THREADED_SIZE = 100 * 1024  # bytes; larger bodies would block other requests
GZIP_LEVEL = 5


async def compress_response(request: Request, response: Response) -> None:
    """Compress a response in place. Streams are not compressed."""
    body = getattr(response, "body", None)
    if not isinstance(body, bytes) or len(body) < MIN_COMPRESSED_SIZE or "content-encoding" in response.headers:
        return
    response.headers.add_vary_header("Accept-Encoding")
    if not accepts_gzip(request.headers.get("accept-encoding", "")):
        return
    if len(body) > MIN_THREADED_SIZE:
        response.body = await asyncio.to_thread(gzip.compress, body, GZIP_LEVEL)
    else:
        response.body = gzip.compress(body, GZIP_LEVEL)
    response.headers["Content-Encoding"] = "gzip"
    response.headers["Content-Length"] = str(len(response.body))


def accepts_gzip(header: str) -> bool:
    for part in header[:1000].lower().split(","):
        name, _, quality = part.partition(";")
        if name.strip() in ("gzip", "*") and quality.replace(" ", "") not in ("q=0", "q=0.0", "q=0.00", "q=0.000"):
            return True
    return False
