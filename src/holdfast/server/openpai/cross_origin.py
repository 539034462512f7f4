"""CORS: pages of any origin can send requests, as with OpenPAI. They must send a token; cookies are ignored."""

from __future__ import annotations

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

CORS_PREFIXES = ("/rest-server/", "/log-manager/")
CORS_METHODS = "GET,HEAD,PUT,PATCH,POST,DELETE"
CORS_HEADERS = {
    "Access-Control-Allow-Origin": "*",
    "Access-Control-Expose-Headers": "Location, Content-Range, Content-Disposition, Retry-After, X-Request-Id, "
    "X-RateLimit-Limit, X-RateLimit-Remaining, X-RateLimit-Reset",
}
_MAX_HEADERS_LENGTH = 1000  # of the header list that a page wants to send


def is_cross_origin_path(path: str) -> bool:
    return path.startswith(CORS_PREFIXES)


class CorsMiddleware:
    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or not is_cross_origin_path(scope["path"]):
            await self._app(scope, receive, send)
            return
        if scope["method"] == "OPTIONS":
            await _respond_preflight(Headers(scope=scope))(scope, receive, send)
            return

        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                MutableHeaders(scope=message).update(CORS_HEADERS)
            await send(message)

        await self._app(scope, receive, send_with_headers)


def _respond_preflight(headers: Headers) -> Response:
    requested = headers.get("access-control-request-headers", "")
    # Listed one by one: `*` does not cover `authorization`.
    allowed = (
        requested
        if 0 < len(requested) <= _MAX_HEADERS_LENGTH and requested.isprintable()
        else "authorization, content-type"
    )
    return Response(
        status_code=204,
        headers={
            **CORS_HEADERS,
            "Access-Control-Allow-Methods": CORS_METHODS,
            "Access-Control-Allow-Headers": allowed,
            "Access-Control-Max-Age": "600",
            "Allow": CORS_METHODS,
            "Vary": "Access-Control-Request-Headers",
        },
    )
