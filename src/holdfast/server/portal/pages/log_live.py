"""/live/log: follows a log for a page.

The server sends binary messages: 8 bytes of offset, then the bytes of the log. As JSON: {"kind": "waiting"} while the
task has not started, {"kind": "skip", "start", "end"} for a part that was skipped because the log grew too fast, and
last {"kind": "end", "job", "task", "exit_code", "final"}. The page sends {"seen": offset} when it has shown the log up
to there; the server sends only a little more than that.
"""

from __future__ import annotations

import asyncio
import json
from contextlib import aclosing
from typing import Any

from holdfast.core.access import Permission, has_permission
from holdfast.core.errors import JobNotFound, UserError
from holdfast.core.messages import msg
from holdfast.engines.base import LogSource
from holdfast.services.logs.service import LogSelection, TaskLog

from ...access_guard import make_job_access_check
from ..sockets import PortalSocket, build_socket_route, run_until_first_ends
from .log import parse_log_options, parse_query_number

FRAME_SIZE = 64 * 1024  # bytes per message
FRAME_INTERVAL = 0.1  # seconds between two messages
SKIP_INTERVAL = 0.5  # seconds between two messages while skipping
MAX_IN_FLIGHT_SIZE = 4 * FRAME_SIZE  # bytes that the page has not confirmed
MAX_BACKLOG_SIZE = 1024 * 1024  # bytes; if the page is further behind, they are skipped
MAX_LINE_SIZE = 4096  # bytes searched for the beginning of a line


async def serve_log(socket: PortalSocket) -> None:
    logs = socket.services.logs
    chosen = await logs.select_log(
        await socket.load_actor(), LogSelection(ref=socket.query.get("job", ""), **parse_log_options(socket.query))
    )
    logs.check_follow(chosen)
    watcher = LogFollower(socket, chosen, parse_query_number(socket.query, "start") or 0)
    guard = socket.create_guard(make_job_access_check(chosen.job))
    for result in await run_until_first_ends(
        watcher.receive_progress(), watcher.send_log(), guard.wait_for_revocation()
    ):
        if isinstance(result, Exception):
            raise result


class LogFollower:
    """Sends one log to one page."""

    def __init__(self, socket: PortalSocket, chosen: TaskLog, start: int) -> None:
        self._socket = socket
        self._logs = socket.services.logs
        self._chosen = chosen
        self._position = start  # everything before was sent or skipped
        self._seen = start
        self._progress_event = asyncio.Event()

    async def receive_progress(self) -> None:
        """Receive messages until the page is closed or sends an invalid one."""
        while True:
            try:
                seen = json.loads(await self._socket.receive())["seen"]
            except (ValueError, TypeError, KeyError, RecursionError):
                raise UserError(msg("The WebSocket message has no `seen` value")) from None
            if isinstance(seen, int):
                self._seen = max(self._seen, seen)
                self._progress_event.set()

    async def send_log(self) -> None:
        if self._logs.find_source(self._chosen) is None:
            await self._send_message(kind="waiting")
        while not await self._follow_log():
            await self._skip_to_newest()
        ended = await self._logs.wait_for_end_state(self._chosen)
        job, task = ended.job_state, ended.task_state
        await self._send_message(kind="end", job=job.value, task=task.value, exit_code=ended.exit_code, final=job.final)

    async def _follow_log(self) -> bool:
        """Send the log; return True at its end, False if the page is too far behind."""
        async with aclosing(self._logs.follow_log(self._chosen, self._position)) as pieces:
            async for offset, data in pieces:
                await self._check_access()
                if data and offset > self._position:  # the size limit dropped the part between
                    await self._send_skip(offset)
                for at in range(0, len(data), FRAME_SIZE):
                    if await self._is_behind():
                        return False
                    await self._send_bytes(data[at : at + FRAME_SIZE])
        return True

    async def _is_behind(self) -> bool:
        source = self._logs.find_source(self._chosen)
        return source is not None and await source.get_size() - self._position > MAX_BACKLOG_SIZE

    async def _skip_to_newest(self) -> None:
        source = self._logs.find_source(self._chosen)
        if source is None:
            return
        await self._send_skip(
            await _find_next_line_offset(source, max(self._position, await source.get_size() - FRAME_SIZE))
        )
        await self._send_bytes(await source.read(self._position, FRAME_SIZE))
        await asyncio.sleep(SKIP_INTERVAL)

    async def _send_skip(self, to: int) -> None:
        await self._send_message(kind="skip", start=self._position, end=to)
        self._position = to

    async def _send_bytes(self, data: bytes) -> None:
        """Send bytes; wait for a slow page."""
        while self._position - self._seen >= MAX_IN_FLIGHT_SIZE:
            self._progress_event.clear()
            await self._progress_event.wait()
        await self._check_access()
        await self._socket.send_bytes(self._position.to_bytes(8, "big") + data)
        self._position += len(data)
        await asyncio.sleep(FRAME_INTERVAL)

    async def _send_message(self, **message: Any) -> None:
        await self._check_access()
        await self._socket.send(message)

    async def _check_access(self) -> None:
        """Raise unless the user is logged in and can still see the job."""
        if not has_permission(await self._socket.load_actor(), Permission.SEE_JOB, self._chosen.job.group):
            raise JobNotFound(msg("Job {id} not found", id=self._chosen.job.id))


async def _find_next_line_offset(source: LogSource, offset: int) -> int:
    """Return the offset of the next line, if it is near."""
    return offset + (await source.read(offset, MAX_LINE_SIZE)).find(b"\n") + 1


routes = [build_socket_route("/live/log", serve_log, listens=True)]
