"""WebSockets to what listens inside a task: /jobs/{ref}/tasks/{task}/ports/{port}, and .../debugger for one that waits.

Bytes go both ways as they are, as in `paced`; {"end": true} stands for the end of one direction. A port is a number, or
a name that the job gave to one. A debugger's token is shown by us.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress

from fastapi import APIRouter

from holdfast.core.errors import NotFound, UserError
from holdfast.services.entering import Entrance, PortStream

from ..sockets import until_one_ends
from .paced import LARGEST, Paced
from .task_lines import TaskLine, task_socket
from .views import show_debugger

LONGEST_WAIT = 24 * 3600.0  # seconds

router = APIRouter()


async def serve_port(line: TaskLine) -> None:
    entrance = await line.find()
    number = port_of(entrance, line.params["port"])
    stream = await line.services.entering.connect(await line.actor(), line.job.id, entrance.task, number)
    try:
        await line.welcome(entrance, port=number)
        await _Relay(line, stream).run()
    finally:
        stream.close()


async def serve_debugger(line: TaskLine) -> None:
    """?id= names one of several; ?wait= so many seconds for one to be there."""
    wait = _seconds(line.query.get("wait", "0"))
    actor, asked = await line.actor(), line.query.get("id")
    found = await line.services.debuggers.attach(actor, line.job.id, line.wanted, id=asked, wait=wait)
    try:
        await line.welcome(found.entrance, debugger=show_debugger(found.entrance.task, found.debugger))
        await _Relay(line, found.stream).run()
    finally:
        found.stream.close()


class _Relay:
    """Until both directions have ended, or somebody is gone."""

    def __init__(self, line: TaskLine, stream: PortStream) -> None:
        self._line = line
        self._stream = stream
        self._bytes = Paced(line)

    async def run(self) -> None:
        for ended in await until_one_ends(self._bytes.listen(lambda _: None), self._both_ways()):
            if isinstance(ended, Exception):
                raise ended

    async def _both_ways(self) -> None:
        await asyncio.gather(self._in(), self._out())

    async def _in(self) -> None:
        writer = self._stream.writer
        with suppress(OSError):
            while data := await self._bytes.take():
                writer.write(data)
                await writer.drain()
            if writer.can_write_eof():
                writer.write_eof()

    async def _out(self) -> None:
        with suppress(OSError):
            while data := await self._stream.reader.read(LARGEST):
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
    raise NotFound(f"{entrance.task} has no port named {asked[:100]}", field="port", hint=hint)


def _seconds(text: str) -> float:
    try:
        found = float(text)
    except ValueError:
        found = -1.0
    if not 0 <= found <= LONGEST_WAIT:
        raise UserError(f"wait is seconds, from 0 to {LONGEST_WAIT:.0f}", field="wait")
    return found


router.routes.append(task_socket("/jobs/{ref}/tasks/{task}/ports/{port}", serve_port))
router.routes.append(task_socket("/jobs/{ref}/tasks/{task}/debugger", serve_debugger))
