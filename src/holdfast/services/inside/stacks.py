"""Where the programs of a task are right now: the Python stacks of all its processes, by py-spy, without a change to
the job. Of other programs, what the kernel says they wait for.

What py-spy looks at belongs to the job, which may be hostile: it runs inside the task, with the task's files and
rights, bounded in time, memory and in what it may say.
"""

from __future__ import annotations

import asyncio
import json
import signal
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from holdfast.core.access import Actor
from holdfast.core.errors import Conflict, UserError
from holdfast.core.messages import msg
from holdfast.engines.base import Command, Engine, ExecRefused, Inside, ProcessInfo, SupportsExec

from ..fair_limiter import FairLimiter
from .service import Entering, Entrance

MAX_DUMPS = 16  # processes looked into at a time
MAX_DUMPS_PER_USER = 4
MAX_COUNT = 64  # processes looked into, of one task
MAX_LISTED = 500
TIME = 20.0  # seconds for all of them
MAX_OUTPUT = 1024 * 1024  # bytes that are read of one py-spy's output
MAX_THREADS = 500
MAX_FRAMES = 200  # of one thread, the innermost
MAX_LENGTH = 500  # characters of any text
SMALL = 4096  # bytes of a file in /proc

STATES = {
    "R": "running",
    "S": "sleeping",
    "D": msg("waiting for a device"),
    "T": "stopped",
    "t": "traced",
    "Z": "ended",
    "I": "idle",
}


@dataclass(frozen=True, slots=True)
class Frame:
    function: str
    file: str
    line: int


@dataclass(frozen=True, slots=True)
class Thread:
    id: int
    name: str
    active: bool  # it was on a CPU, or about to be
    owns_gil: bool
    frames: tuple[Frame, ...]  # the innermost first


@dataclass(frozen=True, slots=True, kw_only=True)
class Process:
    pid: int  # as the task numbers it
    parent: int  # the same; 0: not one of these
    command: str
    python: bool
    state: str = ""
    waits_in: str = ""  # the kernel's name for what it waits for
    threads: tuple[Thread, ...] = ()
    error: str = ""  # why there are no threads of a Python program


@dataclass(frozen=True, slots=True)
class TaskStacks:
    entrance: Entrance
    processes: tuple[Process, ...]
    left_out: int = 0  # processes


class Stacks:
    def __init__(self, entering: Entering, engine: Engine) -> None:
        self._entering = entering
        self._engine = engine if isinstance(engine, SupportsExec) else None
        self._limiter = FairLimiter(MAX_DUMPS, per_key=MAX_DUMPS_PER_USER)

    async def dump(self, actor: Actor, ref: str, task: str | None = None) -> TaskStacks:
        """Of a task that runs or is held, for those who may enter it; it stands still meanwhile, for milliseconds."""
        entrance = await self._entering.find(actor, ref, task)
        found = await self._processes(entrance)
        shown = found[:MAX_LISTED]
        looked_into = {info.pid for info in [each for each in shown if each.python][:MAX_COUNT]}
        inner = {info.pid: info.inner_pid for info in shown}
        until = asyncio.get_running_loop().time() + TIME
        processes = await asyncio.gather(
            *(self._look(actor, entrance, info, inner, until if info.pid in looked_into else None) for info in shown)
        )
        # A number that was given to another process meanwhile would tell of somebody else's.
        still = {(info.pid, info.inner_pid) for info in await self._processes(entrance)}
        kept = [each for info, each in zip(shown, processes, strict=True) if (info.pid, info.inner_pid) in still]
        return TaskStacks(entrance, tuple(kept), len(found) - len(shown))

    async def _processes(self, entrance: Entrance) -> Sequence[ProcessInfo]:
        if self._engine is None:
            raise UserError(msg("What runs the jobs here does not tell what runs in them"))
        try:
            return await self._engine.processes(entrance.attempt_id)
        except ExecRefused as error:
            raise Conflict(
                msg("{task} of {id}: {error}", task=entrance.task, id=entrance.job.id, error=error)
            ) from None

    async def _look(
        self, actor: Actor, entrance: Entrance, info: ProcessInfo, inner: dict[int, int], until: float | None
    ) -> Process:
        command = " ".join(info.command)[:MAX_LENGTH]
        state, waits_in = await asyncio.to_thread(_by_kernel, info.pid)
        found = Process(
            pid=info.inner_pid,
            parent=inner.get(info.parent, 0),
            command=command,
            python=info.python,
            state=state,
            waits_in=waits_in,
        )
        if not info.python:
            return found
        if until is None:
            return replace(found, error=msg("Not looked into: only the first {most} of a task are", most=MAX_COUNT))
        try:
            async with asyncio.timeout_at(until), self._limiter.slot(actor.name):
                return replace(found, threads=await self._spy(entrance.attempt_id, info.inner_pid))
        except _Failed as error:
            return replace(found, error=str(error))
        except TimeoutError:
            return replace(found, error=msg("It took longer than {time} s", time=f"{TIME:g}"))

    async def _spy(self, attempt_id: str, process: int) -> tuple[Thread, ...]:
        assert self._engine is not None
        try:
            session = await self._engine.enter(attempt_id, Command(kind=Inside.STACKS, process=process))
        except ExecRefused as error:
            raise _Failed(str(error)) from None
        try:
            session.end_input()
            out, err = await asyncio.gather(_bounded(session.read), _bounded(session.read_errors))
            status = await session.wait()
        finally:
            session.signal(signal.SIGKILL)
            session.close()
        if status != 0:
            raise _Failed(_said(err))
        return _read(out)


class _Failed(Exception):
    """In words for people."""


async def _bounded(read: Callable[[], Awaitable[bytes]]) -> bytes:
    parts, size = [], 0
    while part := await read():
        parts.append(part)
        size += len(part)
        if size > MAX_OUTPUT:
            raise _Failed(msg("Its stacks are too long to be shown"))
    return b"".join(parts)


def _said(err: bytes) -> str:
    lines = [line.strip() for line in err.decode("utf-8", "replace").splitlines() if line.strip()]
    text = " ".join(lines).removeprefix("Error: ")[:MAX_LENGTH]
    if "ermission" in text or "not permitted" in text:
        return msg(
            "The machine does not let the server look into it. Run the server as root, or set the "
            "kernel's kernel.yama.ptrace_scope to 0"
        )
    return text or msg("py-spy said nothing")


def _read(out: bytes) -> tuple[Thread, ...]:
    try:
        return tuple(_thread(each) for each in json.loads(out)[:MAX_THREADS])
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
        raise _Failed(msg("What py-spy said could not be read")) from None


def _thread(data: dict[str, Any]) -> Thread:
    return Thread(
        id=int(data.get("os_thread_id") or 0),
        name=str(data.get("thread_name") or "")[:MAX_LENGTH],
        active=bool(data.get("active")),
        owns_gil=bool(data.get("owns_gil")),
        frames=tuple(_frame(each) for each in data["frames"][:MAX_FRAMES]),
    )


def _frame(data: dict[str, Any]) -> Frame:
    return Frame(str(data["name"])[:MAX_LENGTH], str(data["filename"])[:MAX_LENGTH], int(data.get("line") or 0))


def _by_kernel(pid: int) -> tuple[str, str]:
    """Its state in words, and the kernel's name for what it waits for; empty where that is not told."""
    try:
        letter = _proc(pid, "stat").rpartition(b") ")[2][:1].decode("ascii", "replace")
    except OSError:
        return "", ""
    try:
        waits_in = _proc(pid, "wchan").decode("ascii", "replace").strip("0\n")[:MAX_LENGTH]
    except OSError:
        waits_in = ""
    return STATES.get(letter, letter), waits_in


def _proc(pid: int, name: str) -> bytes:
    with open(f"/proc/{pid}/{name}", "rb", buffering=0) as file:
        return file.read(SMALL)
