"""WebSockets of live pages. Browsers let every site open a WebSocket with our cookie, so the origin is checked first;
an ended login closes it.

On the close code LOGGED_OUT a page goes to the login page; on TOO_MANY it retries later.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Coroutine
from contextlib import suppress
from typing import Any

from starlette.routing import WebSocketRoute
from starlette.websockets import WebSocket, WebSocketDisconnect

from holdfast.core.access import Actor
from holdfast.core.errors import Forbidden, NotLoggedIn, UserError
from holdfast.core.messages import msg
from holdfast.services import Services
from holdfast.services.fair_limiter import FairLimiter, LimitReached

from .. import sessions
from ..access_guard import AccessCheck, AccessGuard
from ..sockets import (
    FAILED_CODE,
    LOGGED_OUT_CODE,
    REFUSED_CODE,
    TOO_MANY_CODE,
    WebSocketConnection,
    run_until_first_ends,
)

__all__ = [
    "LOGGED_OUT_CODE",
    "REFUSED_CODE",
    "TOO_MANY_CODE",
    "PortalSocket",
    "build_socket_route",
    "run_until_first_ends",
]

log = logging.getLogger(__name__)

MAX_SOCKETS_PER_USER = 200  # open at the same time: each uses a file descriptor of the server


class PortalSocket(WebSocketConnection):
    """An open WebSocket and its user."""

    def __init__(self, socket: WebSocket, services: Services, session: str) -> None:
        super().__init__(socket)
        self.services = services
        self.mark = services.changes.mark  # set before the page sees the socket open, so that no change is missed
        self._session = session

    async def load_actor(self) -> Actor:
        """Return the current actor; NotLoggedIn once the login has ended. Cheap: call it before each message."""
        return await self.services.tokens.resolve_actor(self._session)

    def create_guard(self, require: AccessCheck = lambda actor: None) -> AccessGuard:
        """Return a guard that is valid while the login is valid and `require` passes."""
        return AccessGuard(self.services.tokens, self.load_actor, require)


SocketHandler = Callable[[PortalSocket], Coroutine[Any, Any, None]]


def build_socket_route(path: str, serve: SocketHandler, *, listens: bool = False) -> WebSocketRoute:
    """Build a WebSocket route. `listens`: `serve` receives messages itself; else they are discarded."""

    async def endpoint(websocket: WebSocket) -> None:
        services: Services = websocket.app.state.services
        session = sessions.read_session_cookie(websocket)
        try:
            if "origin" not in websocket.headers:
                raise Forbidden(msg("The WebSocket request has no Origin header"))
            sessions.check_origin(websocket)
        except Forbidden:
            await websocket.close(REFUSED_CODE)  # not accepted yet: the response is 403
            return
        line = PortalSocket(websocket, services, session or "")
        await websocket.accept()
        code = await _serve_within_limit(serve, line, listens)  # accepted first, so that the page sees the code
        with suppress(RuntimeError, WebSocketDisconnect):
            await websocket.close(code)

    return WebSocketRoute(path, endpoint)


_socket_limiter = FairLimiter(per_key=MAX_SOCKETS_PER_USER, max_waiting=0)


async def _serve_within_limit(serve: SocketHandler, line: PortalSocket, listens: bool) -> int:
    """Run `serve`; return the close code."""
    try:
        user = (await line.load_actor()).name
    except NotLoggedIn:
        return LOGGED_OUT_CODE
    try:
        async with _socket_limiter.use_slot(user):
            return await _serve_socket(serve, line, listens)
    except LimitReached:
        return TOO_MANY_CODE


async def _serve_socket(serve: SocketHandler, line: PortalSocket, listens: bool) -> int:
    """Run `serve`; return the close code."""
    work = [serve(line), line.create_guard().wait_for_revocation()]
    ended = await run_until_first_ends(*work, *([] if listens else [_discard_messages(line)]))
    return next((code for code in map(_get_close_code, ended) if code), 1000)


def _get_close_code(ended: object) -> int | None:
    if isinstance(ended, NotLoggedIn):
        return LOGGED_OUT_CODE
    if isinstance(ended, UserError):
        return REFUSED_CODE
    if isinstance(ended, Exception) and not isinstance(ended, WebSocketDisconnect):
        log.error("a live page failed", extra={"event": "internal-error", "error": repr(ended)}, exc_info=ended)
        return FAILED_CODE
    return None


async def _discard_messages(line: PortalSocket) -> None:
    while True:
        await line.receive()
