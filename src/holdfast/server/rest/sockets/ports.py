"""WebSockets to ports in a task: /jobs/{ref}/tasks/{task}/ports/{port}, and .../debugger for a waiting debugger.

Bytes are passed unchanged in both directions, see `flow_control`; {"end": true} marks the end of one direction. A port
is a number, or its name in the job. We send the token of a debugger.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from holdfast.core.errors import NotFound, UserError
from holdfast.core.messages import msg
from holdfast.services.inside.service import ExecTarget, PortStream, build_connection_limiter

from ...sockets import run_until_first_ends
from ..routing import build_router
from ..views import debugger_to_json
from .flow_control import MAX_MESSAGE_SIZE, FlowControl
from .task_connections import TaskWebSocket, build_task_route

MAX_WAIT_TIME = 24 * 3600.0  # seconds
MAX_WAITING_PER_USER = 20  # of one user, for a debugger: each checks for it at every change of state
MAX_WAITING_TOTAL = 1000

router = build_router()

_debugger_wait_limiter = build_connection_limiter(
    msg("WebSockets that wait for a debugger"), MAX_WAITING_PER_USER, MAX_WAITING_TOTAL
)


async def serve_port(line: TaskWebSocket) -> None:
    async def connect_port() -> _PortConnection:
        entrance = await line.find_target()
        number = resolve_port(entrance, line.params["port"])
        stream = await line.services.task_access.connect_port(
            await line.get_actor(), line.job.id, entrance.task, number
        )
        return _PortConnection(stream, entrance, {"port": number})

    await _PortRelay(line, connect_port).run()


async def serve_debugger(line: TaskWebSocket) -> None:
    """Connect to a debugger. ?id= selects one of several; ?wait= is the time to wait for one, in seconds."""
    wait = _parse_wait_seconds(line.query.get("wait", "0"))
    actor, asked = await line.get_actor(), line.query.get("id")

    async def attach_debugger() -> _PortConnection:
        release = _debugger_wait_limiter.acquire_nowait(actor.name) if wait else lambda: None
        try:
            found = await line.services.debuggers.attach(actor, line.job.id, line.requested_task, id=asked, wait=wait)
        finally:
            release()
        shown = debugger_to_json(found.target.task, found.debugger)
        return _PortConnection(found.stream, found.target, {"debugger": shown})

    await _PortRelay(line, attach_debugger).run()


@dataclass(frozen=True, slots=True)
class _PortConnection:
    stream: PortStream
    target: ExecTarget
    welcome_fields: dict[str, Any]


class _PortRelay:
    """Relays bytes until both directions have ended, or one side has disconnected."""

    def __init__(self, line: TaskWebSocket, opening: Callable[[], Awaitable[_PortConnection]]) -> None:
        self._socket = line
        self._connect = opening
        self._flow_control = FlowControl(line)

    async def run(self) -> None:
        """Messages are received from the start, so that a client that disconnects during the connect is noticed."""
        for ended in await run_until_first_ends(
            self._flow_control.receive_messages(lambda _: None), self._relay_both()
        ):
            if isinstance(ended, Exception):
                raise ended

    async def _relay_both(self) -> None:
        found = await self._connect()
        try:
            await self._socket.send_welcome(found.target, **found.welcome_fields)
            await asyncio.gather(self._relay_input(found.stream), self._relay_output(found.stream))
        finally:
            found.stream.close()

    async def _relay_input(self, stream: PortStream) -> None:
        writer = stream.writer
        with suppress(OSError):
            while data := await self._flow_control.receive_bytes():
                writer.write(data)
                await writer.drain()
            if writer.can_write_eof():
                writer.write_eof()

    async def _relay_output(self, stream: PortStream) -> None:
        with suppress(OSError):
            while data := await stream.reader.read(MAX_MESSAGE_SIZE):
                await self._flow_control.send_bytes(data)
        await self._socket.send({"end": True})


def resolve_port(entrance: ExecTarget, asked: str) -> int:
    """Return a port by number, or by its name in the job; of several with that name the first."""
    if asked.isascii() and asked.isdigit() and len(asked) <= 5:
        return int(asked)
    if entrance.ports.get(asked):
        return entrance.ports[asked][0]
    known = ", ".join(sorted(entrance.ports)[:10])
    hint = f"Its ports are {known}; or give a number." if known else "Use a port number: this job has no named ports."
    raise NotFound(
        msg("{task} has no port named {requested}", task=entrance.task, requested=asked[:100]), field="port", hint=hint
    )


def _parse_wait_seconds(text: str) -> float:
    try:
        found = float(text)
    except ValueError:
        found = -1.0
    if not 0 <= found <= MAX_WAIT_TIME:
        raise UserError(
            msg("wait must be between 0 and {max_wait_length} seconds", max_wait_length=f"{MAX_WAIT_TIME:.0f}"),
            field="wait",
        )
    return found


router.routes.append(build_task_route("/jobs/{ref}/tasks/{task}/ports/{port}", serve_port))
router.routes.append(build_task_route("/jobs/{ref}/tasks/{task}/debugger", serve_debugger))
