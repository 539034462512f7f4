"""Answers, made smaller for those who can read them so."""

from __future__ import annotations

import asyncio
import gzip

from starlette.requests import Request
from starlette.responses import Response

WORTH_IT = 1024  # bytes
IN_A_THREAD = 100 * 1024  # bytes; what is more would hold others up
LEVEL = 5


async def compress(request: Request, response: Response) -> None:
    """In place. Streams are left as they are."""
    body = getattr(response, "body", None)
    if not isinstance(body, bytes) or len(body) < WORTH_IT or "content-encoding" in response.headers:
        return
    response.headers.add_vary_header("Accept-Encoding")
    if not accepts_gzip(request.headers.get("accept-encoding", "")):
        return
    if len(body) > IN_A_THREAD:
        response.body = await asyncio.to_thread(gzip.compress, body, LEVEL)
    else:
        response.body = gzip.compress(body, LEVEL)
    response.headers["Content-Encoding"] = "gzip"
    response.headers["Content-Length"] = str(len(response.body))


def accepts_gzip(header: str) -> bool:
    for part in header[:1000].lower().split(","):
        name, _, quality = part.partition(";")
        if name.strip() in ("gzip", "*") and quality.replace(" ", "") not in ("q=0", "q=0.0", "q=0.00", "q=0.000"):
            return True
    return False
