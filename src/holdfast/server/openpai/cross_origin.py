"""Pages of any origin may ask here, as with OpenPAI. They bring a token of their own; no cookie is ever looked at."""

from __future__ import annotations

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

PREFIXES = ("/rest-server/", "/log-manager/")
METHODS = "GET,HEAD,PUT,PATCH,POST,DELETE"
OPEN = {
    "Access-Control-Allow-Origin": "*",
    "Access-Control-Expose-Headers": "Location, Content-Range, Content-Disposition, Retry-After, X-Request-Id, "
    "X-RateLimit-Limit, X-RateLimit-Remaining, X-RateLimit-Reset",
}
_MAX_LENGTH = 1000  # of a list of headers that a page wants to send


def is_open(path: str) -> bool:
    return path.startswith(PREFIXES)


class CrossOrigin:
    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or not is_open(scope["path"]):
            await self._app(scope, receive, send)
            return
        if scope["method"] == "OPTIONS":
            await _preflight(Headers(scope=scope))(scope, receive, send)
            return

        async def opened(message: Message) -> None:
            if message["type"] == "http.response.start":
                MutableHeaders(scope=message).update(OPEN)
            await send(message)

        await self._app(scope, receive, opened)


def _preflight(headers: Headers) -> Response:
    wanted = headers.get("access-control-request-headers", "")
    # Named one by one: a star does not cover `authorization`.
    allowed = wanted if 0 < len(wanted) <= _MAX_LENGTH and wanted.isprintable() else "authorization, content-type"
    return Response(
        status_code=204,
        headers={
            **OPEN,
            "Access-Control-Allow-Methods": METHODS,
            "Access-Control-Allow-Headers": allowed,
            "Access-Control-Max-Age": "600",
            "Allow": METHODS,
            "Vary": "Access-Control-Request-Headers",
        },
    )
