"""WebSockets that lead into tasks: who comes, where to, and how long they may stay.

Login is by token as everywhere, or by `?ticket=` for pages, which cannot send headers. A browser says which site's page
asks, and only our own may. Who may not enter the job gets no socket, but an error as from any other address. What goes
wrong later is told as {"error", "code", "hint", "error_data", "hint_data"}, and the socket is closed with 4000 + the
HTTP status of that error.
`-` in place of the task is the one that is held, else the first that runs.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Coroutine
from contextlib import suppress
from typing import Any

from starlette.routing import WebSocketRoute
from starlette.websockets import WebSocket, WebSocketDisconnect

from holdfast.core.access import Actor, may_enter, refuse_entry
from holdfast.core.errors import NotFound, NotLoggedIn, UserError
from holdfast.core.messages import data_of, join_messages, msg
from holdfast.core.records import JobSummary
from holdfast.services import Services
from holdfast.services.audit import CLIENT_ADDRESS
from holdfast.services.inside.service import Entrance, limit_open
from holdfast.services.refusals import store_unavailable
from holdfast.store.errors import StoreError

from ...access_guard import AccessGuard, GetActor
from ...auth import bearer_token
from ...errors import STATUS, render_error
from ...sessions import check_origin
from ...sockets import FAILED, Messages, until_one_ends
from ..addresses import PREFIX

log = logging.getLogger(__name__)

OWN_CODES = 4000  # what is below belongs to the protocol
ANY_TASK = "-"
MAX_PER_USER = 1000  # open at one time by one user: each costs the server a file, of which there are only so many
MAX_COUNT = 10_000
MAX_REASON_LENGTH = 120  # bytes of the few that a socket's end can carry


class TaskLine(Messages):
    """An open socket of somebody who may enter the tasks of a job."""

    def __init__(self, socket: WebSocket, services: Services, who: GetActor, job: JobSummary) -> None:
        super().__init__(socket)
        self.services = services
        self.guard = AccessGuard(services.tokens, who, self._require)
        self.job = job
        self.params = socket.path_params
        self.wanted = None if socket.path_params["task"] == ANY_TASK else socket.path_params["task"]

    async def actor(self) -> Actor:
        """As things stand now; refuses when they may not be inside any more."""
        return await self.guard.check()

    def _require(self, actor: Actor) -> None:
        if not may_enter(actor, self.job.group, self.job.user):
            raise refuse_entry(self.job.group, self.job.user)

    async def find(self) -> Entrance:
        return await self.services.entering.find(await self.actor(), self.job.id, self.wanted)

    async def welcome(self, entrance: Entrance, **more: Any) -> None:
        """The first words: where it leads, and whose that is when it is not one's own."""
        whose = entrance.whose(await self.actor())
        where = {"job": entrance.job.id, "task": entrance.task, "held": entrance.held}
        await self.send({"entered": {**where, **({"whose": whose} if whose else {}), **more}})


_open = limit_open("lines into tasks", MAX_PER_USER, MAX_COUNT)

Serve = Callable[[TaskLine], Coroutine[Any, Any, None]]


def task_socket(path: str, serve: Serve) -> WebSocketRoute:
    """`path`, below the API, has {ref} and {task}."""

    async def endpoint(websocket: WebSocket) -> None:
        CLIENT_ADDRESS.set(websocket.client.host if websocket.client else "")
        try:
            check_origin(websocket)
            line = await _let_in(websocket)
        except (UserError, StoreError) as error:
            await websocket.send_denial_response(render_error(_told(error)[0], ""))
            return
        await websocket.accept()
        ended = await _run(line, serve)
        with suppress(RuntimeError, WebSocketDisconnect):
            await _close(websocket, ended)

    return WebSocketRoute(PREFIX + path, endpoint)


async def _run(line: TaskLine, serve: Serve) -> BaseException | None:
    """What it ended with, if not well."""
    try:
        release = _open.acquire_now((await line.actor()).name)
    except (UserError, StoreError) as error:
        return error
    try:
        ended = await until_one_ends(serve(line), line.guard.watch())
    finally:
        release()
    return next((each for each in ended if isinstance(each, Exception)), None)


async def _let_in(websocket: WebSocket) -> TaskLine:
    services: Services = websocket.app.state.services
    who, only = await _login(websocket, services)
    job = await services.entering.job(await who(), websocket.path_params["ref"])
    if only and only != job.id:
        raise NotFound(msg("This ticket is not for {id}", id=job.id))
    return TaskLine(websocket, services, who, job)


async def _login(websocket: WebSocket, services: Services) -> tuple[GetActor, str]:
    """Whom to ask who it is, and the only job it is good for, if any."""
    ticket = websocket.query_params.get("ticket")
    if ticket is None or "authorization" in websocket.headers:
        token = bearer_token(websocket)
        return (lambda: services.tokens.actor(token)), ""
    admitted = await services.tickets.redeem(ticket[:200])
    return (lambda: services.tickets.holder(admitted)), admitted.job_id


async def _close(websocket: WebSocket, error: BaseException | None) -> None:
    if error is None or isinstance(error, WebSocketDisconnect):
        await websocket.close()
        return
    told, code = _told(error)
    data = {"error_data": data_of(told.message), "hint_data": data_of(told.hint)}
    await Messages(websocket).send({"error": told.message, "code": told.code, "hint": told.hint, **data})
    reason = told.message.encode()[:MAX_REASON_LENGTH].decode(errors="ignore")
    await websocket.close(code, reason)


def _told(error: BaseException) -> tuple[UserError, int]:
    """What to say of it, and the code to close with."""
    if isinstance(error, NotLoggedIn) and "Authorization" in (error.hint or ""):
        pages = msg("Pages show a ticket instead: POST /api/v1/jobs/JOB/tickets.")
        error.hint = join_messages(" ", (error.hint or "", pages))
    if isinstance(error, StoreError):
        log.error("the store could not do it", extra={"event": "store", "error": str(error)})
        error = store_unavailable(error, "Try again in a moment.")
    if isinstance(error, UserError):
        return error, OWN_CODES + STATUS.get(error.code, 400)
    log.error("a line into a task failed", extra={"event": "internal-error", "error": repr(error)}, exc_info=error)
    failure = UserError(msg("Something went wrong here; the server's log tells more"))
    failure.code = "internal"
    return failure, FAILED
