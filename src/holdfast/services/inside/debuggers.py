"""Debuggers in tasks: listing them, and attaching without a host, port or token."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from dataclasses import dataclass
from pathlib import PurePosixPath

from holdfast.core.access import Actor
from holdfast.core.attempt import Debugger
from holdfast.core.errors import Conflict, UserError, sanitize_output
from holdfast.core.messages import msg
from holdfast.core.records import JobSummary

from ..control import Control
from .service import ExecTarget, PortStream, TaskAccess

TOKEN_PROMPT = b"Token: "
TOKEN_TIMEOUT = 10.0  # seconds until the prompt
RECHECK_INTERVAL = 15.0  # seconds between checks while waiting
MAX_LOCATION_LENGTH = 80  # characters shown; the task sets it and is not trusted
MAX_REFUSAL_LENGTH = 300  # characters of its error


@dataclass(frozen=True, slots=True)
class TaskDebugger:
    task: str
    debugger: Debugger

    @property
    def location(self) -> str:
        """train.py:42"""
        return f"{PurePosixPath(self.debugger.file).name}:{self.debugger.line}"

    @property
    def is_free(self) -> bool:
        """Whether it is waiting and no user is attached."""
        return self.debugger.waits and not self.debugger.attached


@dataclass(frozen=True, slots=True)
class DebuggerConnection:
    target: ExecTarget
    debugger: Debugger
    stream: PortStream


class Debuggers:
    def __init__(self, control: Control, entering: TaskAccess) -> None:
        self._control = control
        self._task_access = entering

    def list_job_debuggers(self, job_id: str, task: str | None = None) -> list[TaskDebugger]:
        """List the debuggers of a job or task; free ones first, then the oldest."""
        found = [
            TaskDebugger(name, debugger)
            for name, debuggers in self._control.get_debuggers_by_task(job_id).items()
            if task in (None, name)
            for debugger in debuggers
        ]
        return sorted(found, key=lambda each: (not each.is_free, not each.debugger.waits, each.debugger.since))

    def describe_free_debugger(self, job: JobSummary) -> str | None:
        """Return the location of the first free debugger, such as train.py:42 in worker-3. Cheap: reads only memory."""
        if job.state.final:
            return None
        first = next((each for each in self.list_job_debuggers(job.id) if each.is_free), None)
        return msg("{place} in {task}", place=first.location[-MAX_LOCATION_LENGTH:], task=first.task) if first else None

    async def attach(
        self, actor: Actor, ref: str, task: str | None = None, *, id: str | None = None, wait: float = 0.0
    ) -> DebuggerConnection:
        """Attach to the named debugger or the first free one; wait for one up to `wait` seconds. The caller closes the
        stream. Only the token prompt has been read from it."""
        job = await self._task_access.find_accessible_job(actor, ref)
        if task is not None:
            with suppress(Conflict):  # not started yet, or about to be retried
                task = (await self._task_access.find_target(actor, job.id, task)).task
        chosen = await self._wait_for_debugger(actor, job, task, id, wait)
        entrance = await self._task_access.find_target(actor, job.id, chosen.task)
        stream = await self._task_access.connect_port(actor, job.id, chosen.task, chosen.debugger.port, way="debugger")
        try:
            if chosen.debugger.token:
                await _send_token(stream, chosen)
        except BaseException:
            stream.close()
            raise
        return DebuggerConnection(entrance, chosen.debugger, stream)

    async def _wait_for_debugger(
        self, actor: Actor, job: JobSummary, task: str | None, id: str | None, wait: float
    ) -> TaskDebugger:
        until = asyncio.get_running_loop().time() + wait
        while True:
            mark = self._control.changes.mark  # before the check, to miss no change
            found = self._choose_debugger(job, task, id)
            if found is not None:
                return found
            left = until - asyncio.get_running_loop().time()
            if left <= 0 or self._control.get_active_job(job.id) is None:
                entrance = await self._task_access.find_target(actor, job.id, task)  # raises if no task can be entered
                raise self._build_no_debugger_error(job, task, entrance)
            with suppress(TimeoutError):
                await asyncio.wait_for(self._control.changes.wait_for_changes(mark), min(left, RECHECK_INTERVAL))

    def _choose_debugger(self, job: JobSummary, task: str | None, id: str | None) -> TaskDebugger | None:
        found = [each for each in self.list_job_debuggers(job.id, task) if id in (None, each.debugger.id)]
        free = [each for each in found if not each.debugger.attached]
        if found and not free:
            raise Conflict(
                msg("The debugger in {task} at {location} is in use", task=found[0].task, location=found[0].location),
                hint=msg("Try again after the other session has ended."),
            )
        return free[0] if free else None

    def _build_no_debugger_error(self, job: JobSummary, task: str | None, entrance: ExecTarget) -> Conflict:
        others = [each.task for each in self.list_job_debuggers(job.id)]
        if task is not None and others:
            return Conflict(
                msg("No debugger is waiting in {task} of {id}", task=task, id=job.id),
                hint=msg("A debugger is waiting in {task}.", task=others[0]),
            )
        hint = msg(
            "Call `import paipdb; paipdb.settrace()` in the program, or run it with `python3 -m paipdb`. "
            "`holdfast stack {id}` shows its stack traces.",
            id=job.id,
        )
        if entrance.held:
            hint = msg(
                "Open a shell with `holdfast ssh {id}`, then run the program again with `python3 -m paipdb`.", id=job.id
            )
        return Conflict(msg("No debugger is waiting in {id}", id=job.id), hint=hint)


async def _send_token(stream: PortStream, chosen: TaskDebugger) -> None:
    try:
        async with asyncio.timeout(TOKEN_TIMEOUT):
            await stream.reader.readuntil(TOKEN_PROMPT)
            stream.writer.write(chosen.debugger.token.encode() + b"\n")
            await stream.writer.drain()
    except asyncio.IncompleteReadError as error:
        output = sanitize_output(error.partial)[:MAX_REFUSAL_LENGTH]
        raise Conflict(
            output or msg("The debugger in {task} has exited", task=chosen.task), hint=msg("Try again in a moment.")
        ) from None
    except (asyncio.LimitOverrunError, TimeoutError, OSError):
        raise UserError(
            msg(
                "The process on port {port} of {task} does not respond like a debugger",
                port=chosen.debugger.port,
                task=chosen.task,
            )
        ) from None
