"""WebSockets of our own pages: one for each that is live. Browsers let every site open a socket to us and send our
cookie along, so where it comes from is checked first; a login that ended closes it."""

from __future__ import annotations

import asyncio
import json
import logging
from collections import Counter
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager, suppress
from typing import Any

from starlette.routing import WebSocketRoute
from starlette.websockets import WebSocket, WebSocketDisconnect

from holdfast.core.access import Actor
from holdfast.core.errors import Forbidden, NotLoggedIn, UserError
from holdfast.services import Services

from .. import sessions

log = logging.getLogger(__name__)

LOGGED_OUT = 4401  # the page goes to the login page
REFUSED = 4403
FAILED = 1011
TOO_MANY = 1013  # the page tries again later
MOST_OF_ONE = 200  # open at one time by one user: each costs the server a file, of which there are only so many
LOOK_EVERY = 20.0  # seconds after which a silent line looks whether its login still holds


class Line:
    """An open socket, and whose it is."""

    def __init__(self, socket: WebSocket, services: Services, session: str) -> None:
        self._socket = socket
        self.services = services
        self._session = session

    @property
    def query(self) -> dict[str, str]:
        return dict(self._socket.query_params)

    async def actor(self) -> Actor:
        """As things stand now; NotLoggedIn once the login has ended. Cheap: ask before everything that is sent."""
        return await self.services.tokens.actor(self._session)

    # WebSocketDisconnect when the page is gone

    async def send(self, message: dict[str, Any]) -> None:
        with _gone():
            await self._socket.send_text(json.dumps(message, separators=(",", ":")))

    async def send_bytes(self, data: bytes) -> None:
        with _gone():
            await self._socket.send_bytes(data)

    async def receive(self) -> str | bytes:
        with _gone():
            message = await self._socket.receive()
        if message["type"] == "websocket.disconnect":
            raise WebSocketDisconnect(message.get("code", 1000))
        found = message.get("text") if message.get("text") is not None else message.get("bytes")
        return found if found is not None else ""


@contextmanager
def _gone() -> Iterator[None]:
    """The framework says in this way that a socket is closed; what else raises it is a mistake of ours."""
    try:
        yield
    except RuntimeError as error:
        raise WebSocketDisconnect from error


Serve = Callable[[Line], Coroutine[Any, Any, None]]


def socket(path: str, serve: Serve, *, listens: bool = False) -> WebSocketRoute:
    """`listens`: `serve` receives messages itself; else whatever comes is left aside, and a page that goes ends it."""

    async def endpoint(websocket: WebSocket) -> None:
        services: Services = websocket.app.state.services
        session = sessions.session_of(websocket)
        try:
            if "origin" not in websocket.headers:
                raise Forbidden("A page says where it is from")
            sessions.check_origin(websocket)
        except Forbidden:
            await websocket.close(REFUSED)  # before it was accepted: the answer is 403
            return
        await websocket.accept()
        line = Line(websocket, services, session or "")
        code = await _run_one_of_few(serve, line, listens)  # after: a page learns a code of ours no other way
        with suppress(RuntimeError, WebSocketDisconnect):
            await websocket.close(code)

    return WebSocketRoute(path, endpoint)


_open: Counter[str] = Counter()  # by user


async def _run_one_of_few(serve: Serve, line: Line, listens: bool) -> int:
    """The code to close with."""
    try:
        user = (await line.actor()).name
    except NotLoggedIn:
        return LOGGED_OUT
    if _open[user] >= MOST_OF_ONE:
        return TOO_MANY
    _open[user] += 1
    try:
        return await _run(serve, line, listens)
    finally:
        _open[user] -= 1
        if not _open[user]:
            del _open[user]


async def _run(serve: Serve, line: Line, listens: bool) -> int:
    """The code to close with."""
    work = [serve(line), _watch_login(line)]
    ended = await until_one_ends(*work, *([] if listens else [_drain(line)]))
    return next((code for code in map(_code, ended) if code), 1000)


async def until_one_ends(*work: Coroutine[Any, Any, None]) -> list[BaseException | None]:
    """All of it at once, until the first ends; then the rest is cancelled. What each ended with, if not well."""
    tasks = [asyncio.ensure_future(each) for each in work]
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in tasks:
            task.cancel()
        ended = await asyncio.gather(*tasks, return_exceptions=True)
    return ended


def _code(ended: object) -> int | None:
    if isinstance(ended, NotLoggedIn):
        return LOGGED_OUT
    if isinstance(ended, UserError):
        return REFUSED
    if isinstance(ended, Exception) and not isinstance(ended, WebSocketDisconnect):
        log.error("a live page failed", extra={"event": "internal-error", "error": repr(ended)}, exc_info=ended)
        return FAILED
    return None


async def _watch_login(line: Line) -> None:
    while True:
        mark = line.services.tokens.mark  # before the look, so that what changes meanwhile is looked at, too
        await line.actor()
        await line.services.tokens.changed(mark, LOOK_EVERY)


async def _drain(line: Line) -> None:
    while True:
        await line.receive()
