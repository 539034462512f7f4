"""WebSockets of our own pages: one for each that is live. Browsers let every site open a socket to us and send our
cookie along, so where it comes from is checked first; a login that ended closes it.

A page that is closed with LOGGED_OUT goes to the login page, and with TOO_MANY tries again later.
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
from ..access_guard import AccessGuard, Require
from ..sockets import FAILED, LOGGED_OUT, REFUSED, TOO_MANY, Messages, until_one_ends

__all__ = ["LOGGED_OUT", "REFUSED", "TOO_MANY", "Line", "socket", "until_one_ends"]

log = logging.getLogger(__name__)

MAX_PER_USER = 200  # open at one time: each costs the server a file, of which there are only so many


class Line(Messages):
    """An open socket, and whose it is."""

    def __init__(self, socket: WebSocket, services: Services, session: str) -> None:
        super().__init__(socket)
        self.services = services
        self.mark = services.changes.mark  # before the page knows that the socket is open, so that it misses nothing
        self._session = session

    async def actor(self) -> Actor:
        """As things stand now; NotLoggedIn once the login has ended. Cheap: ask before everything that is sent."""
        return await self.services.tokens.actor(self._session)

    def guard(self, require: Require = lambda actor: None) -> AccessGuard:
        """For as long as its login is valid and `require` holds."""
        return AccessGuard(self.services.tokens, self.actor, require)


Serve = Callable[[Line], Coroutine[Any, Any, None]]


def socket(path: str, serve: Serve, *, listens: bool = False) -> WebSocketRoute:
    """`listens`: `serve` receives messages itself; else whatever comes is left aside, and a page that goes ends it."""

    async def endpoint(websocket: WebSocket) -> None:
        services: Services = websocket.app.state.services
        session = sessions.session_of(websocket)
        try:
            if "origin" not in websocket.headers:
                raise Forbidden(msg("A page says where it is from"))
            sessions.check_origin(websocket)
        except Forbidden:
            await websocket.close(REFUSED)  # before it was accepted: the answer is 403
            return
        line = Line(websocket, services, session or "")
        await websocket.accept()
        code = await _run_one_of_few(serve, line, listens)  # after: a page learns a code of ours no other way
        with suppress(RuntimeError, WebSocketDisconnect):
            await websocket.close(code)

    return WebSocketRoute(path, endpoint)


_open = FairLimiter(per_key=MAX_PER_USER, max_waiting=0)


async def _run_one_of_few(serve: Serve, line: Line, listens: bool) -> int:
    """The code to close with."""
    try:
        user = (await line.actor()).name
    except NotLoggedIn:
        return LOGGED_OUT
    try:
        async with _open.slot(user):
            return await _run(serve, line, listens)
    except LimitReached:
        return TOO_MANY


async def _run(serve: Serve, line: Line, listens: bool) -> int:
    """The code to close with."""
    work = [serve(line), line.guard().watch()]
    ended = await until_one_ends(*work, *([] if listens else [_drain(line)]))
    return next((code for code in map(_code, ended) if code), 1000)


def _code(ended: object) -> int | None:
    if isinstance(ended, NotLoggedIn):
        return LOGGED_OUT
    if isinstance(ended, UserError):
        return REFUSED
    if isinstance(ended, Exception) and not isinstance(ended, WebSocketDisconnect):
        log.error("a live page failed", extra={"event": "internal-error", "error": repr(ended)}, exc_info=ended)
        return FAILED
    return None


async def _drain(line: Line) -> None:
    while True:
        await line.receive()
