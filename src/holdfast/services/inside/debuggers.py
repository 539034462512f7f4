"""Debuggers that wait inside tasks: which there are, and a way to one of them without host, port or token."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from dataclasses import dataclass
from pathlib import PurePosixPath

from holdfast.core.access import Actor
from holdfast.core.attempt import Debugger
from holdfast.core.errors import Conflict, UserError, quoted
from holdfast.core.messages import msg
from holdfast.core.records import JobSummary

from ..control import Control
from .service import Entering, Entrance, PortStream

ASKS = b"Token: "
TIMEOUT = 10.0  # seconds for it to ask
LOOK_AGAIN = 15.0  # seconds after which a wait looks whether there still is something to wait for
MAX_PLACE_LENGTH = 80  # characters that a list shows: the task says it, and may say anything
MAX_REFUSAL_LENGTH = 300  # characters of what it says instead


@dataclass(frozen=True, slots=True)
class Waiting:
    task: str
    debugger: Debugger

    @property
    def place(self) -> str:
        """train.py:42"""
        return f"{PurePosixPath(self.debugger.file).name}:{self.debugger.line}"

    @property
    def is_free(self) -> bool:
        """It waits, and nobody is at it."""
        return self.debugger.waits and not self.debugger.attached


@dataclass(frozen=True, slots=True)
class Attached:
    entrance: Entrance
    debugger: Debugger
    stream: PortStream


class Debuggers:
    def __init__(self, control: Control, entering: Entering) -> None:
        self._control = control
        self._entering = entering

    def of(self, job_id: str, task: str | None = None) -> list[Waiting]:
        """All in a job's tasks, or in one; those that wait for somebody first, then the longest there."""
        found = [
            Waiting(name, debugger)
            for name, debuggers in self._control.debuggers(job_id).items()
            if task in (None, name)
            for debugger in debuggers
        ]
        return sorted(found, key=lambda each: (not each.is_free, not each.debugger.waits, each.debugger.since))

    def waits_at(self, job: JobSummary) -> str | None:
        """train.py:42 in worker-3: the first where nobody is yet. From memory; for each job of a list."""
        if job.state.final:
            return None
        first = next((each for each in self.of(job.id) if each.is_free), None)
        return msg("{place} in {task}", place=first.place[-MAX_PLACE_LENGTH:], task=first.task) if first else None

    async def attach(
        self, actor: Actor, ref: str, task: str | None = None, *, id: str | None = None, wait: float = 0.0
    ) -> Attached:
        """To the debugger named, or the first that waits for somebody; waits so long for one. Whoever gets the stream
        closes it; nothing has been read from it but that the token is asked for."""
        job = await self._entering.job(actor, ref)
        if task is not None:
            with suppress(Conflict):  # it has not started yet, or is about to be tried again
                task = (await self._entering.find(actor, job.id, task)).task
        chosen = await self._wait_for_one(actor, job, task, id, wait)
        entrance = await self._entering.find(actor, job.id, chosen.task)
        stream = await self._entering.connect(actor, job.id, chosen.task, chosen.debugger.port, way="debugger")
        try:
            if chosen.debugger.token:
                await _show_token(stream, chosen)
        except BaseException:
            stream.close()
            raise
        return Attached(entrance, chosen.debugger, stream)

    async def _wait_for_one(
        self, actor: Actor, job: JobSummary, task: str | None, id: str | None, wait: float
    ) -> Waiting:
        until = asyncio.get_running_loop().time() + wait
        while True:
            mark = self._control.changes.mark  # before the look
            found = self._choose(job, task, id)
            if found is not None:
                return found
            left = until - asyncio.get_running_loop().time()
            if left <= 0 or self._control.active(job.id) is None:
                entrance = await self._entering.find(actor, job.id, task)  # which says why there is nothing to enter
                raise self._none(job, task, entrance)
            with suppress(TimeoutError):
                await asyncio.wait_for(self._control.changes.after(mark), min(left, LOOK_AGAIN))

    def _choose(self, job: JobSummary, task: str | None, id: str | None) -> Waiting | None:
        found = [each for each in self.of(job.id, task) if id in (None, each.debugger.id)]
        free = [each for each in found if not each.debugger.attached]
        if found and not free:
            raise Conflict(
                msg(
                    "Somebody is at the debugger in {task} already, at {place}",
                    task=found[0].task,
                    place=found[0].place,
                ),
                hint=msg("It takes one at a time: try again once they have left."),
            )
        return free[0] if free else None

    def _none(self, job: JobSummary, task: str | None, entrance: Entrance) -> Conflict:
        others = [each.task for each in self.of(job.id)]
        if task is not None and others:
            return Conflict(
                msg("No debugger waits in {task} of {id}", task=task, id=job.id),
                hint=msg("One waits in {x1}.", x1=others[0]),
            )
        hint = msg(
            "Have the program call `import paipdb; paipdb.settrace()`, or run it by `python3 -m "
            "paipdb`; `holdfast stack {id}` shows where it is now.",
            id=job.id,
        )
        if entrance.held:
            hint = msg(
                "It failed and is held: `holdfast ssh {id}` gets inside, and `python3 -m paipdb` runs it again.",
                id=job.id,
            )
        return Conflict(msg("No debugger waits in {id}", id=job.id), hint=hint)


async def _show_token(stream: PortStream, chosen: Waiting) -> None:
    try:
        async with asyncio.timeout(TIMEOUT):
            await stream.reader.readuntil(ASKS)
            stream.writer.write(chosen.debugger.token.encode() + b"\n")
            await stream.writer.drain()
    except asyncio.IncompleteReadError as error:
        said = quoted(error.partial)[:MAX_REFUSAL_LENGTH]
        raise Conflict(
            said or msg("The debugger in {task} is gone", task=chosen.task), hint=msg("Try again in a moment.")
        ) from None
    except (asyncio.LimitOverrunError, TimeoutError, OSError):
        raise UserError(
            msg(
                "What listens on port {port} of {task} does not answer as a debugger does",
                port=chosen.debugger.port,
                task=chosen.task,
            )
        ) from None
