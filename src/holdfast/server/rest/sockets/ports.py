"""WebSockets to what listens inside a task: /jobs/{ref}/tasks/{task}/ports/{port}, and .../debugger for one that waits.

Bytes go both ways as they are, as in `paced`; {"end": true} stands for the end of one direction. A port is a number, or
a name that the job gave to one. A debugger's token is shown by us.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from holdfast.core.errors import NotFound, UserError
from holdfast.core.messages import msg
from holdfast.services.inside.service import Entrance, PortStream, limit_open

from ...sockets import until_one_ends
from ..addresses import rest_router
from ..views import show_debugger
from .flow_control import MAX_SIZE, Paced
from .task_connections import TaskLine, task_socket

MAX_WAIT = 24 * 3600.0  # seconds
MAX_WAITING = 20  # of one user, for a debugger: whatever changes anywhere, each of them looks whether it has come
MAX_WAITING_TOTAL = 1000

router = rest_router()

_waiting = limit_open("lines that wait for a debugger", MAX_WAITING, MAX_WAITING_TOTAL)


async def serve_port(line: TaskLine) -> None:
    async def connect() -> _Opened:
        entrance = await line.find()
        number = port_of(entrance, line.params["port"])
        stream = await line.services.entering.connect(await line.actor(), line.job.id, entrance.task, number)
        return _Opened(stream, entrance, {"port": number})

    await _Relay(line, connect).run()


async def serve_debugger(line: TaskLine) -> None:
    """?id= names one of several; ?wait= so many seconds for one to be there."""
    wait = _seconds(line.query.get("wait", "0"))
    actor, asked = await line.actor(), line.query.get("id")

    async def attach() -> _Opened:
        release = _waiting.acquire_now(actor.name) if wait else lambda: None
        try:
            found = await line.services.debuggers.attach(actor, line.job.id, line.wanted, id=asked, wait=wait)
        finally:
            release()
        shown = show_debugger(found.entrance.task, found.debugger)
        return _Opened(found.stream, found.entrance, {"debugger": shown})

    await _Relay(line, attach).run()


@dataclass(frozen=True, slots=True)
class _Opened:
    stream: PortStream
    entrance: Entrance
    told: dict[str, Any]


class _Relay:
    """Until both directions have ended, or somebody is gone."""

    def __init__(self, line: TaskLine, opening: Callable[[], Awaitable[_Opened]]) -> None:
        self._line = line
        self._opening = opening
        self._bytes = Paced(line)

    async def run(self) -> None:
        """What comes is heard from the beginning, so that one who leaves while it is being opened is missed."""
        for ended in await until_one_ends(self._bytes.listen(lambda _: None), self._both_ways()):
            if isinstance(ended, Exception):
                raise ended

    async def _both_ways(self) -> None:
        found = await self._opening()
        try:
            await self._line.welcome(found.entrance, **found.told)
            await asyncio.gather(self._in(found.stream), self._out(found.stream))
        finally:
            found.stream.close()

    async def _in(self, stream: PortStream) -> None:
        writer = stream.writer
        with suppress(OSError):
            while data := await self._bytes.take():
                writer.write(data)
                await writer.drain()
            if writer.can_write_eof():
                writer.write_eof()

    async def _out(self, stream: PortStream) -> None:
        with suppress(OSError):
            while data := await stream.reader.read(MAX_SIZE):
                await self._bytes.give(data)
        await self._line.send({"end": True})


def port_of(entrance: Entrance, asked: str) -> int:
    """By number, or by the job's own name for it; of several so named the first."""
    if asked.isascii() and asked.isdigit() and len(asked) <= 5:
        return int(asked)
    if entrance.ports.get(asked):
        return entrance.ports[asked][0]
    known = ", ".join(sorted(entrance.ports)[:10])
    hint = f"Its ports are {known}; or give a number." if known else "Give a number: the job names no ports."
    raise NotFound(
        msg("{task} has no port named {asked}", task=entrance.task, asked=asked[:100]), field="port", hint=hint
    )


def _seconds(text: str) -> float:
    try:
        found = float(text)
    except ValueError:
        found = -1.0
    if not 0 <= found <= MAX_WAIT:
        raise UserError(msg("wait is seconds, from 0 to {longest_wait}", longest_wait=f"{MAX_WAIT:.0f}"), field="wait")
    return found


router.routes.append(task_socket("/jobs/{ref}/tasks/{task}/ports/{port}", serve_port))
router.routes.append(task_socket("/jobs/{ref}/tasks/{task}/debugger", serve_debugger))
