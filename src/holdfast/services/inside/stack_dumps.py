"""Stack traces of a task's Python processes, by py-spy, without a change to the job; for other processes, the kernel
function that they wait in.

The job can be hostile, so py-spy runs inside the task, with the task's files and permissions and with limits on time,
memory and output.
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
from holdfast.engines.base import ExecCommand, ExecKind, ExecRefused, TaskProcess
from holdfast.engines.engine_set import EngineSet

from ..fair_limiter import FairLimiter
from .service import ExecTarget, TaskAccess

MAX_CONCURRENT_DUMPS = 16  # processes at a time
MAX_DUMPS_PER_USER = 4
MAX_INSPECTED_PROCESSES = 64  # processes of one task
MAX_LISTED_PROCESSES = 500
DUMP_TIMEOUT = 20.0  # seconds for all of them
MAX_OUTPUT_SIZE = 1024 * 1024  # bytes of py-spy's output for one process
MAX_THREADS = 500
MAX_FRAMES = 200  # of one thread, the innermost
MAX_TEXT_LENGTH = 500  # characters of any text
PROC_READ_SIZE = 4096  # bytes of a file in /proc

STATE_NAMES = {
    "R": "running",
    "S": "sleeping",
    "D": msg("waiting for I/O"),
    "T": "stopped",
    "t": "traced",
    "Z": "ended",
    "I": "idle",
}


@dataclass(frozen=True, slots=True)
class StackFrame:
    function: str
    file: str
    line: int


@dataclass(frozen=True, slots=True)
class ThreadStack:
    id: int
    name: str
    active: bool  # running or runnable
    owns_gil: bool
    frames: tuple[StackFrame, ...]  # the innermost first


@dataclass(frozen=True, slots=True, kw_only=True)
class InspectedProcess:
    pid: int  # in the task's PID namespace
    parent: int  # the same; 0: not one of these processes
    command: str
    python: bool
    state: str = ""
    waits_in: str = ""  # kernel function that it waits in
    threads: tuple[ThreadStack, ...] = ()
    error: str = ""  # why there are no threads of a Python program


@dataclass(frozen=True, slots=True)
class TaskStackDump:
    target: ExecTarget
    processes: tuple[InspectedProcess, ...]
    left_out: int = 0  # processes


class StackDumps:
    def __init__(self, entering: TaskAccess, engine: EngineSet) -> None:
        self._task_access = entering
        self._engine = engine
        self._limiter = FairLimiter(MAX_CONCURRENT_DUMPS, per_key=MAX_DUMPS_PER_USER)

    async def dump_stacks(self, actor: Actor, ref: str, task: str | None = None) -> TaskStackDump:
        """Dump the stacks of a task that is running or on hold. It is paused for milliseconds."""
        entrance = await self._task_access.find_target(actor, ref, task)
        found = await self._list_processes(entrance)
        shown = found[:MAX_LISTED_PROCESSES]
        looked_into = {info.pid for info in [each for each in shown if each.python][:MAX_INSPECTED_PROCESSES]}
        inner = {info.pid: info.inner_pid for info in shown}
        until = asyncio.get_running_loop().time() + DUMP_TIMEOUT
        processes = await asyncio.gather(
            *(
                self._inspect_process(actor, entrance, info, inner, until if info.pid in looked_into else None)
                for info in shown
            )
        )
        # A reused PID could show a process of another task.
        still = {(info.pid, info.inner_pid) for info in await self._list_processes(entrance)}
        kept = [each for info, each in zip(shown, processes, strict=True) if (info.pid, info.inner_pid) in still]
        return TaskStackDump(entrance, tuple(kept), len(found) - len(shown))

    async def _list_processes(self, entrance: ExecTarget) -> Sequence[TaskProcess]:
        if not self._engine.supports_exec(entrance.attempt_id):
            raise UserError(msg("This engine does not support stack traces"))
        try:
            return await self._engine.list_processes(entrance.attempt_id)
        except ExecRefused as error:
            raise Conflict(
                msg("{task} of {id}: {error}", task=entrance.task, id=entrance.job.id, error=error)
            ) from None

    async def _inspect_process(
        self, actor: Actor, entrance: ExecTarget, info: TaskProcess, inner: dict[int, int], until: float | None
    ) -> InspectedProcess:
        command = " ".join(info.command)[:MAX_TEXT_LENGTH]
        state, waits_in = await asyncio.to_thread(_read_kernel_state, info.pid)
        found = InspectedProcess(
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
            return replace(
                found,
                error=msg(
                    "Skipped: stack traces are limited to the first {limit} Python processes of a task",
                    limit=MAX_INSPECTED_PROCESSES,
                ),
            )
        try:
            async with asyncio.timeout_at(until), self._limiter.use_slot(actor.name):
                return replace(found, threads=await self._run_py_spy(entrance.attempt_id, info.inner_pid))
        except _StackDumpError as error:
            return replace(found, error=str(error))
        except TimeoutError:
            return replace(found, error=msg("Timed out after {time} s", time=f"{DUMP_TIMEOUT:g}"))

    async def _run_py_spy(self, attempt_id: str, process: int) -> tuple[ThreadStack, ...]:
        try:
            session = await self._engine.open_session(
                attempt_id, ExecCommand(kind=ExecKind.STACK_DUMP, process=process)
            )
        except ExecRefused as error:
            raise _StackDumpError(str(error)) from None
        try:
            session.close_stdin()
            out, err = await asyncio.gather(
                _read_limited_output(session.read), _read_limited_output(session.read_stderr)
            )
            status = await session.wait()
        finally:
            session.send_signal(signal.SIGKILL)
            session.close()
        if status != 0:
            raise _StackDumpError(_describe_py_spy_error(err))
        return _parse_threads(out)


class _StackDumpError(Exception):
    """A failed stack dump; its text is shown to users."""


async def _read_limited_output(read: Callable[[], Awaitable[bytes]]) -> bytes:
    parts, size = [], 0
    while part := await read():
        parts.append(part)
        size += len(part)
        if size > MAX_OUTPUT_SIZE:
            raise _StackDumpError(msg("The stack traces are too large to show"))
    return b"".join(parts)


def _describe_py_spy_error(err: bytes) -> str:
    lines = [line.strip() for line in err.decode("utf-8", "replace").splitlines() if line.strip()]
    text = " ".join(lines).removeprefix("Error: ")[:MAX_TEXT_LENGTH]
    if "ermission" in text or "not permitted" in text:
        return msg(
            "Permission to read the process was denied. Run the server as root, or set the sysctl "
            "kernel.yama.ptrace_scope to 0"
        )
    return text or msg("py-spy failed without an error message")


def _parse_threads(out: bytes) -> tuple[ThreadStack, ...]:
    try:
        return tuple(_parse_thread(each) for each in json.loads(out)[:MAX_THREADS])
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
        raise _StackDumpError(msg("The output of py-spy could not be parsed")) from None


def _parse_thread(data: dict[str, Any]) -> ThreadStack:
    return ThreadStack(
        id=int(data.get("os_thread_id") or 0),
        name=str(data.get("thread_name") or "")[:MAX_TEXT_LENGTH],
        active=bool(data.get("active")),
        owns_gil=bool(data.get("owns_gil")),
        frames=tuple(_parse_frame(each) for each in data["frames"][:MAX_FRAMES]),
    )


def _parse_frame(data: dict[str, Any]) -> StackFrame:
    return StackFrame(
        str(data["name"])[:MAX_TEXT_LENGTH], str(data["filename"])[:MAX_TEXT_LENGTH], int(data.get("line") or 0)
    )


def _read_kernel_state(pid: int) -> tuple[str, str]:
    """Return the state and the kernel function that the process waits in; empty if unknown."""
    try:
        letter = _read_proc_file(pid, "stat").rpartition(b") ")[2][:1].decode("ascii", "replace")
    except OSError:
        return "", ""
    try:
        waits_in = _read_proc_file(pid, "wchan").decode("ascii", "replace").strip("0\n")[:MAX_TEXT_LENGTH]
    except OSError:
        waits_in = ""
    return STATE_NAMES.get(letter, letter), waits_in


def _read_proc_file(pid: int, name: str) -> bytes:
    with open(f"/proc/{pid}/{name}", "rb", buffering=0) as file:
        return file.read(PROC_READ_SIZE)
