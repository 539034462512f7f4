"""Failed tasks that are kept: for how much longer, what of them, and letting them go."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from holdfast.core.access import Actor
from holdfast.core.attempt import Held, TaskAttempt
from holdfast.core.errors import Conflict, NotFound, UserError
from holdfast.core.holds import Ask, HoldRequest, spell_out
from holdfast.core.job import Keep
from holdfast.core.messages import msg
from holdfast.core.records import JobSummary
from holdfast.core.states import JobState, TaskState
from holdfast.settings import HoldSettings
from holdfast.store.database import Store

from ..control import Control
from ..job_lookup import find_job, find_own_job, newest_live
from ..name_suggestions import nearest


@dataclass(frozen=True, slots=True, kw_only=True)
class HeldTask:
    task: str
    held: Held
    latest: datetime  # it cannot be extended beyond


@dataclass(frozen=True, slots=True)
class HeldJob:
    job: JobSummary
    tasks: tuple[HeldTask, ...]  # those that were meant


class Holds:
    def __init__(
        self, store: Store, control: Control, settings: HoldSettings, *, clock: Callable[[], datetime]
    ) -> None:
        self._store = store
        self._control = control
        self._duration = timedelta(seconds=settings.duration)
        self._longest = timedelta(seconds=settings.longest)
        self._clock = clock

    async def get(self, actor: Actor, ref: str) -> HeldJob:
        """A job one may see, with all of it that is held now."""
        job = await find_job(self._store, actor, ref)
        return HeldJob(with_hold(job, self._control), self.of(job.id))

    def of(self, job_id: str) -> tuple[HeldTask, ...]:
        """What of a job is held now. Whoever asks is known to see it."""
        return tuple(self._shown(task) for task in self._held(job_id))

    async def extend(
        self,
        actor: Actor,
        ref: str,
        *,
        by: timedelta | None = None,
        until: datetime | None = None,
        task: str | None = None,
    ) -> HeldJob:
        """Hold longer: `by` so much more than now planned, or `until` then. With neither, by the usual duration, or as
        long as may be. UserError, and nothing changes, for more than the admin allows."""
        if by is not None and until is not None:
            raise UserError(msg("Say for how much longer, or until when, not both"), field="until")
        job, tasks = await self._find(actor, ref, task)
        ends = {each.task: self._end(each, by, until) for each in tasks}
        await asyncio.gather(*(self._ask(job, actor, Ask.EXTEND, name, end) for name, end in ends.items()))
        return self._now(job, tasks)

    async def keep_files(self, actor: Actor, ref: str, *, task: str | None = None) -> HeldJob:
        """Its processes end and give their resources back; the files stay as long as they would have."""
        job, tasks = await self._find(actor, ref, task)
        whole = [each for each in tasks if each.held and each.held.keep is Keep.ALL]
        if not whole:
            raise Conflict(msg("Of {tasks} only the files are kept already", tasks=_names(tasks)))
        await self._ask(job, actor, Ask.KEEP_FILES, task)
        return self._now(job, tasks)

    async def release(self, actor: Actor, ref: str, *, task: str | None = None) -> tuple[JobSummary, tuple[str, ...]]:
        """The job, and which of its tasks are let go: they end as they would have without the hold."""
        job, tasks = await self._find(actor, ref, task)
        await self._ask(job, actor, Ask.RELEASE, task)
        return job, tuple(each.task for each in tasks)

    # -- what they are made of

    async def _find(self, actor: Actor, ref: str, task: str | None) -> tuple[JobSummary, list[TaskAttempt]]:
        job = await self._find_job(actor, ref)
        live = self._control.active(job.id)
        if live is None:
            failed = job.state is JobState.FAILED
            hint = msg("Run it again and keep it: `holdfast rerun {id} --hold`.", id=job.id) if failed else None
            raise Conflict(
                msg("{name} ({id}) has ended, and nothing of it is held", name=job.name, id=job.id), hint=hint
            )
        if task is not None and task not in (names := [each.task for each in live.tasks]):
            raise NotFound(
                msg("{name} has no task {task}", name=job.name, task=task[:100]),
                field="task",
                hint=nearest(task, names),
            )
        found = [each for each in self._held(job.id) if task in (None, each.task)]
        if not found:
            where = f"{job.name} ({job.id})"
            said = (
                msg("Nothing of {where} is held", where=where)
                if task is None
                else msg("{task} of {where} is not held", task=task, where=where)
            )
            raise Conflict(said, hint=_not_held(live.tasks))
        return job, found

    async def _find_job(self, actor: Actor, ref: str) -> JobSummary:
        """By a name whose newest job has ended: the newest of the actor's own that is held."""
        job = await find_own_job(self._store, actor, ref)
        if job.name != ref or self._control.active(job.id) is not None:
            return job
        held = [snapshot for snapshot, task in self._control.held() if task.stop is None]
        return await newest_live(self._store, actor, ref, held) or job

    def _held(self, job_id: str) -> list[TaskAttempt]:
        live = self._control.active(job_id)
        tasks = live.tasks if live is not None else ()
        return [task for task in tasks if task.state is TaskState.HELD and task.held and task.stop is None]

    def _end(self, task: TaskAttempt, by: timedelta | None, until: datetime | None) -> datetime:
        """Until when it is held then; UserError when that cannot be."""
        assert task.held is not None
        latest = task.held.since + self._longest
        if by is None and until is None:
            return max(task.held.until, min(latest, task.held.until + self._duration))
        end = until if until is not None else _later(task.held.until, by or timedelta())
        if end > latest:
            raise UserError(
                msg(
                    "{task} can be held until {latest} at the latest: {longest} in all",
                    task=task.task,
                    latest=_instant(latest),
                    longest=spell_out(self._longest),
                ),
                field="until" if until is not None else "for",
                hint=msg("Give --until {latest}Z.", latest=latest.isoformat(timespec="minutes")[:16]),
            )
        if end <= self._clock():
            raise UserError(
                msg("{end} is over", end=_instant(end)),
                field="until",
                hint=msg("`holdfast release` lets held tasks go at once."),
            )
        return end

    async def _ask(
        self, job: JobSummary, actor: Actor, ask: Ask, task: str | None, until: datetime | None = None
    ) -> None:
        request = HoldRequest(actor=actor.name, at=self._clock(), ask=ask, task=task, until=until)
        if not await self._control.ask_hold(job.id, request):
            raise Conflict(msg("{name} ({id}) has ended meanwhile", name=job.name, id=job.id))

    def _now(self, job: JobSummary, tasks: Sequence[TaskAttempt]) -> HeldJob:
        names = {task.task for task in tasks}
        return HeldJob(with_hold(job, self._control), tuple(held for held in self.of(job.id) if held.task in names))

    def _shown(self, task: TaskAttempt) -> HeldTask:
        assert task.held is not None
        return HeldTask(task=task.task, held=task.held, latest=max(task.held.until, task.held.since + self._longest))


def held_until(control: Control, job_id: str) -> datetime | None:
    """When the last of its held tasks is let go; None where none is held."""
    live = control.active(job_id)
    ends = [task.held.until for task in live.tasks if task.state is TaskState.HELD and task.held] if live else []
    return max(ends, default=None)


def with_hold(job: JobSummary, control: Control) -> JobSummary:
    """With the time until which it is held."""
    return replace(job, held_until=held_until(control, job.id)) if job.state is JobState.HELD else job


def _names(tasks: Sequence[TaskAttempt]) -> str:
    return ", ".join(task.task for task in tasks[:5]) + (msg(" and others") if len(tasks) > 5 else "")


def _not_held(tasks: Sequence[TaskAttempt]) -> str:
    held = [task for task in tasks if task.state is TaskState.HELD and task.stop is None]
    return (
        msg("Held: {held}.", held=_names(held))
        if held
        else msg("Tasks are held whose command failed, where the job asks for it.")
    )


def _instant(at: datetime) -> str:
    return f"{at:%Y-%m-%d %H:%M} UTC"


def _later(at: datetime, by: timedelta) -> datetime:
    try:
        return at + by
    except OverflowError:
        return datetime.max.replace(tzinfo=at.tzinfo)
