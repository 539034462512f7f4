"""/live/log: a log as it grows, to a page that shows it.

From us, bytes: 8 bytes of offset, then what was written there. As JSON: {"kind": "waiting"} while the task has not
started, {"kind": "skip", "start", "end"} for what was left out because it came faster than anyone reads, and last
{"kind": "end", "job", "task", "exit_code", "final"}. From the page {"seen": offset}: it has shown what was before;
only a little more than that is sent.
"""

from __future__ import annotations

import asyncio
import json
from contextlib import aclosing
from typing import Any

from holdfast.core.access import Verb, may
from holdfast.core.errors import NotFound, UserError
from holdfast.core.messages import msg
from holdfast.engines.base import LogSource, Stream
from holdfast.services.logs.service import Chosen, Selection

from ...access_guard import require_job
from ..sockets import Line, socket, until_one_ends

FRAME = 64 * 1024  # bytes sent at one time
PACE = 0.1  # seconds between two of them: more than that nobody can read
HASTE = 0.5  # seconds between two where most is left out anyway
IN_FLIGHT = 4 * FRAME  # bytes that the page has not shown yet
BACKLOG = 1024 * 1024  # bytes behind the end of the log, above which they are left out
LONG_LINE = 4096  # bytes within which the beginning of a line is looked for
BIG = 2**62


async def serve_log(line: Line) -> None:
    logs = line.services.logs
    chosen = await logs.choose(await line.actor(), _selection(line.query))
    logs.check_follow(chosen)
    watcher = Watcher(line, chosen, _number(line.query.get("start", "")) or 0)
    guard = line.guard(require_job(chosen.job))
    for result in await until_one_ends(watcher.listen(), watcher.show(), guard.watch()):
        if isinstance(result, Exception):
            raise result


class Watcher:
    """One page that follows one log."""

    def __init__(self, line: Line, chosen: Chosen, start: int) -> None:
        self._line = line
        self._logs = line.services.logs
        self._chosen = chosen
        self._position = start  # what is before it was sent, or left out
        self._seen = start
        self._news = asyncio.Event()

    async def listen(self) -> None:
        """Until the page is gone, or talks nonsense."""
        while True:
            try:
                seen = json.loads(await self._line.receive())["seen"]
            except (ValueError, TypeError, KeyError, RecursionError):
                raise UserError(msg("A page says what it has seen")) from None
            if isinstance(seen, int):
                self._seen = max(self._seen, seen)
                self._news.set()

    async def show(self) -> None:
        if self._logs.source_if_any(self._chosen) is None:
            await self._tell(kind="waiting")
        while not await self._follow():
            await self._leave_out()
        ended = await self._logs.end(self._chosen)
        job, task = ended.job_state, ended.task_state
        await self._tell(kind="end", job=job.value, task=task.value, exit_code=ended.exit_code, final=job.final)

    async def _follow(self) -> bool:
        """True at the end of the log, False as soon as the end is too far ahead."""
        async with aclosing(self._logs.follow(self._chosen, self._position)) as pieces:
            async for offset, data in pieces:
                await self._check()
                if data and offset > self._position:  # the cap dropped what was between
                    await self._skip(offset)
                for at in range(0, len(data), FRAME):
                    if await self._is_behind():
                        return False
                    await self._send(data[at : at + FRAME])
        return True

    async def _is_behind(self) -> bool:
        source = self._logs.source_if_any(self._chosen)
        return source is not None and await source.size() - self._position > BACKLOG

    async def _leave_out(self) -> None:
        """Go on with the newest lines."""
        source = self._logs.source_if_any(self._chosen)
        if source is None:
            return
        await self._skip(await _line_near(source, max(self._position, await source.size() - FRAME)))
        await self._send(await source.read(self._position, FRAME))
        await asyncio.sleep(HASTE)

    async def _skip(self, to: int) -> None:
        await self._tell(kind="skip", start=self._position, end=to)
        self._position = to

    async def _send(self, data: bytes) -> None:
        """A page that is slow to show what it has is waited for."""
        while self._position - self._seen >= IN_FLIGHT:
            self._news.clear()
            await self._news.wait()
        await self._check()
        await self._line.send_bytes(self._position.to_bytes(8, "big") + data)
        self._position += len(data)
        await asyncio.sleep(PACE)

    async def _tell(self, **message: Any) -> None:
        await self._check()
        await self._line.send(message)

    async def _check(self) -> None:
        """Logged in, and still in the group whose job it is."""
        if not may(await self._line.actor(), Verb.SEE_JOB, self._chosen.job.group):
            raise NotFound(msg("There is no job {id}", id=self._chosen.job.id))


async def _line_near(source: LogSource, offset: int) -> int:
    """Where the next line begins, if it is not far."""
    return offset + (await source.read(offset, LONG_LINE)).find(b"\n") + 1


def _selection(query: dict[str, str]) -> Selection:
    stream = query.get("stream", "")
    return Selection(
        ref=query.get("job", ""),
        task=query.get("task", "")[:300] or None,
        attempt=_number(query.get("attempt", "")),
        number=_number(query.get("try", "")),
        stream=Stream(stream) if stream in set(Stream) else Stream.MERGED,
    )


def _number(text: str) -> int | None:
    return min(int(text), BIG) if text.isascii() and text.isdigit() and len(text) < 20 else None


routes = [socket("/live/log", serve_log, listens=True)]
