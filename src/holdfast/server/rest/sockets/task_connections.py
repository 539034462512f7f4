"""WebSockets into tasks: authentication, target task, and continuous access checks.

Login is by token as everywhere, or by `?ticket=` for web pages, which cannot send headers. Browsers send the origin of
the page, and only our own is accepted. Without access to the job the upgrade fails, with an HTTP error as everywhere.
Later errors are sent as {"error", "code", "hint", "error_data", "hint_data"}, and the socket is closed with 4000 + the
HTTP status of that error. `-` instead of the task selects the one on hold, else the first that runs.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Coroutine
from contextlib import suppress
from typing import Any

from starlette.routing import WebSocketRoute
from starlette.websockets import WebSocket, WebSocketDisconnect

from holdfast.core.access import Actor, build_exec_forbidden_error, can_exec
from holdfast.core.errors import NotFound, NotLoggedIn, UserError
from holdfast.core.messages import get_message_json, join_messages, msg
from holdfast.core.records import JobSummary
from holdfast.services import Services
from holdfast.services.audit import CLIENT_ADDRESS
from holdfast.services.errors import build_store_unavailable_error
from holdfast.services.inside.service import ExecTarget, build_connection_limiter
from holdfast.store.errors import StoreError

from ...access_guard import AccessGuard, ActorResolver
from ...auth import read_bearer_token
from ...errors import STATUS_CODES, render_error
from ...sessions import check_origin
from ...sockets import FAILED_CODE, WebSocketConnection, run_until_first_ends
from ..routing import API_PREFIX

log = logging.getLogger(__name__)

FIRST_APPLICATION_CODE = 4000  # lower codes belong to the protocol
ANY_TASK = "-"
MAX_SESSIONS_PER_USER = 1000  # open at a time per user: each uses a file descriptor of the server
MAX_SESSIONS = 10_000
MAX_REASON_LENGTH = 120  # bytes of the close reason


class TaskWebSocket(WebSocketConnection):
    """An open WebSocket of a user with shell access to the tasks of a job."""

    def __init__(self, socket: WebSocket, services: Services, who: ActorResolver, job: JobSummary) -> None:
        super().__init__(socket)
        self.services = services
        self.guard = AccessGuard(services.tokens, who, self._check_access)
        self.job = job
        self.params = socket.path_params
        self.requested_task = None if socket.path_params["task"] == ANY_TASK else socket.path_params["task"]

    async def get_actor(self) -> Actor:
        """Return the current actor, or raise an error when access has ended."""
        return await self.guard.check_access()

    def _check_access(self, actor: Actor) -> None:
        if not can_exec(actor, self.job.group, self.job.user):
            raise build_exec_forbidden_error(self.job.group, self.job.user)

    async def find_target(self) -> ExecTarget:
        return await self.services.task_access.find_target(await self.get_actor(), self.job.id, self.requested_task)

    async def send_welcome(self, entrance: ExecTarget, **more: Any) -> None:
        """Send the first message: the task, and its user if it is another one."""
        whose = entrance.describe_owner(await self.get_actor())
        where = {"job": entrance.job.id, "task": entrance.task, "held": entrance.held}
        await self.send({"entered": {**where, **({"whose": whose} if whose else {}), **more}})


_session_limiter = build_connection_limiter(msg("WebSocket sessions"), MAX_SESSIONS_PER_USER, MAX_SESSIONS)

SessionHandler = Callable[[TaskWebSocket], Coroutine[Any, Any, None]]


def build_task_route(path: str, serve: SessionHandler) -> WebSocketRoute:
    """Return a route. `path`, below the API, contains {ref} and {task}."""

    async def endpoint(websocket: WebSocket) -> None:
        CLIENT_ADDRESS.set(websocket.client.host if websocket.client else "")
        try:
            check_origin(websocket)
            line = await _authorize_socket(websocket)
        except (UserError, StoreError) as error:
            await websocket.send_denial_response(render_error(_convert_error(error)[0], ""))
            return
        await websocket.accept()
        ended = await _serve_session(line, serve)
        with suppress(RuntimeError, WebSocketDisconnect):
            await _close_socket(websocket, ended)

    return WebSocketRoute(API_PREFIX + path, endpoint)


async def _serve_session(line: TaskWebSocket, serve: SessionHandler) -> BaseException | None:
    try:
        release = _session_limiter.acquire_nowait((await line.get_actor()).name)
    except (UserError, StoreError) as error:
        return error
    try:
        ended = await run_until_first_ends(serve(line), line.guard.wait_for_revocation())
    finally:
        release()
    return next((each for each in ended if isinstance(each, Exception)), None)


async def _authorize_socket(websocket: WebSocket) -> TaskWebSocket:
    services: Services = websocket.app.state.services
    who, only = await _authenticate_socket(websocket, services)
    job = await services.task_access.find_accessible_job(await who(), websocket.path_params["ref"])
    if only and only != job.id:
        raise NotFound(msg("This ticket is not valid for {id}", id=job.id))
    return TaskWebSocket(websocket, services, who, job)


async def _authenticate_socket(websocket: WebSocket, services: Services) -> tuple[ActorResolver, str]:
    """Return how to get the actor, and the only job that the login is valid for, if any."""
    ticket = websocket.query_params.get("ticket")
    if ticket is None or "authorization" in websocket.headers:
        token = read_bearer_token(websocket)
        return (lambda: services.tokens.resolve_actor(token)), ""
    admitted = await services.tickets.redeem(ticket[:200])
    return (lambda: services.tickets.load_holder(admitted)), admitted.job_id


async def _close_socket(websocket: WebSocket, error: BaseException | None) -> None:
    if error is None or isinstance(error, WebSocketDisconnect):
        await websocket.close()
        return
    description, code = _convert_error(error)
    data = {"error_data": get_message_json(description.message), "hint_data": get_message_json(description.hint)}
    await WebSocketConnection(websocket).send(
        {"error": description.message, "code": description.code, "hint": description.hint, **data}
    )
    reason = description.message.encode()[:MAX_REASON_LENGTH].decode(errors="ignore")
    await websocket.close(code, reason)


def _convert_error(error: BaseException) -> tuple[UserError, int]:
    """Return the error to send, and the close code."""
    if isinstance(error, NotLoggedIn) and "Authorization" in (error.hint or ""):
        pages = msg("From a web page, use a ticket: POST /api/v1/jobs/JOB/tickets.")
        error.hint = join_messages(" ", (error.hint or "", pages))
    if isinstance(error, StoreError):
        log.error("database error", extra={"event": "store", "error": str(error)})
        error = build_store_unavailable_error(error, "Try again in a moment.")
    if isinstance(error, UserError):
        return error, FIRST_APPLICATION_CODE + STATUS_CODES.get(error.code, 400)
    log.error("a WebSocket session failed", extra={"event": "internal-error", "error": repr(error)}, exc_info=error)
    failure = UserError(msg("Internal server error; ask an admin to check the server log"))
    failure.code = "internal"
    return failure, FAILED_CODE
