"""Failed tasks on hold: list, extend, keep only the files, and release."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from holdfast.core.access import Actor
from holdfast.core.attempt import TaskAttempt, TaskHold
from holdfast.core.errors import Conflict, NotFound, UserError
from holdfast.core.holds import HoldAction, HoldRequest, format_duration_in_words
from holdfast.core.job import HoldScope
from holdfast.core.messages import msg
from holdfast.core.records import JobSummary
from holdfast.core.states import JobState, TaskState
from holdfast.settings_sections import HoldSettings
from holdfast.store.database import Store

from ..control import Control
from ..job_lookup import find_job, find_modifiable_job, find_newest_live_job
from ..name_suggestions import suggest_name


@dataclass(frozen=True, slots=True, kw_only=True)
class HeldTask:
    task: str
    held: TaskHold
    latest: datetime  # maximum end of the hold


@dataclass(frozen=True, slots=True)
class HeldJob:
    job: JobSummary
    tasks: tuple[HeldTask, ...]  # those selected


class Holds:
    def __init__(
        self, store: Store, control: Control, settings: HoldSettings, *, clock: Callable[[], datetime]
    ) -> None:
        self._store = store
        self._control = control
        self._default_duration = timedelta(seconds=settings.duration)
        self._max_duration = timedelta(seconds=settings.longest)
        self._clock = clock

    async def get(self, actor: Actor, ref: str) -> HeldJob:
        job = await find_job(self._store, actor, ref)
        return HeldJob(add_held_until(job, self._control), self.list_held_tasks(job.id))

    def list_held_tasks(self, job_id: str) -> tuple[HeldTask, ...]:
        """Return a job's tasks on hold. The caller has checked permissions."""
        return tuple(self._build_held_task(task) for task in self._list_held_attempts(job_id))

    async def extend(
        self,
        actor: Actor,
        ref: str,
        *,
        by: timedelta | None = None,
        until: datetime | None = None,
        task: str | None = None,
    ) -> HeldJob:
        """Default: the default duration, up to the maximum. UserError, without any change, if it is exceeded."""
        if by is not None and until is not None:
            raise UserError(msg("Set either `for` or `until`, not both"), field="until")
        job, tasks = await self._require_held_tasks(actor, ref, task)
        ends = {each.task: self._compute_hold_end(each, by, until) for each in tasks}
        await asyncio.gather(
            *(self._request_change(job, actor, HoldAction.EXTEND, name, end) for name, end in ends.items())
        )
        return self._build_held_job(job, tasks)

    async def keep_files(self, actor: Actor, ref: str, *, task: str | None = None) -> HeldJob:
        """End the processes and free their resources; keep the files until the hold expires."""
        job, tasks = await self._require_held_tasks(actor, ref, task)
        whole = [each for each in tasks if each.held and each.held.keep is HoldScope.ALL]
        if not whole:
            raise Conflict(
                msg(
                    "Only the files of {tasks} are on hold; the processes have already ended",
                    tasks=_format_task_names(tasks),
                )
            )
        await self._request_change(job, actor, HoldAction.KEEP_FILES, task)
        return self._build_held_job(job, tasks)

    async def release(self, actor: Actor, ref: str, *, task: str | None = None) -> tuple[JobSummary, tuple[str, ...]]:
        """Release tasks. They end as they would have without the hold. Return the job and the task names."""
        job, tasks = await self._require_held_tasks(actor, ref, task)
        await self._request_change(job, actor, HoldAction.RELEASE, task)
        return job, tuple(each.task for each in tasks)

    async def _require_held_tasks(
        self, actor: Actor, ref: str, task: str | None
    ) -> tuple[JobSummary, list[TaskAttempt]]:
        job = await self._find_job(actor, ref)
        live = self._control.get_active_job(job.id)
        if live is None:
            failed = job.state is JobState.FAILED
            hint = (
                msg("Rerun the job and hold it if it fails: `holdfast rerun {id} --hold`.", id=job.id)
                if failed
                else None
            )
            raise Conflict(msg("{name} ({id}) has ended and has no tasks on hold", name=job.name, id=job.id), hint=hint)
        if task is not None and task not in (names := [each.task for each in live.tasks]):
            raise NotFound(
                msg("{name} has no task {task}", name=job.name, task=task[:100]),
                field="task",
                hint=suggest_name(task, names),
            )
        found = [each for each in self._list_held_attempts(job.id) if task in (None, each.task)]
        if not found:
            where = f"{job.name} ({job.id})"
            message = (
                msg("{where} has no tasks on hold", where=where)
                if task is None
                else msg("{task} of {where} is not on hold", task=task, where=where)
            )
            raise Conflict(message, hint=_build_hold_hint(live.tasks))
        return job, found

    async def _find_job(self, actor: Actor, ref: str) -> JobSummary:
        """Find a job. For a name whose newest job has ended, prefer the actor's newest job on hold."""
        job = await find_modifiable_job(self._store, actor, ref)
        if job.name != ref or self._control.get_active_job(job.id) is not None:
            return job
        held = [snapshot for snapshot, task in self._control.list_held_tasks() if task.stop is None]
        return await find_newest_live_job(self._store, actor, ref, held) or job

    def _list_held_attempts(self, job_id: str) -> list[TaskAttempt]:
        live = self._control.get_active_job(job_id)
        tasks = live.tasks if live is not None else ()
        return [task for task in tasks if task.state is TaskState.HELD and task.held and task.stop is None]

    def _compute_hold_end(self, task: TaskAttempt, by: timedelta | None, until: datetime | None) -> datetime:
        """Return the new end of the hold. UserError if it is not allowed."""
        assert task.held is not None
        latest = task.held.since + self._max_duration
        if by is None and until is None:
            return max(task.held.until, min(latest, task.held.until + self._default_duration))
        end = until if until is not None else _add_duration(task.held.until, by or timedelta())
        if end > latest:
            raise UserError(
                msg(
                    "{task} can be held only until {latest} ({max_length} in total)",
                    task=task.task,
                    latest=_format_time(latest),
                    max_length=format_duration_in_words(self._max_duration),
                ),
                field="until" if until is not None else "for",
                hint=msg("Use --until {latest}Z.", latest=latest.isoformat(timespec="minutes")[:16]),
            )
        if end <= self._clock():
            raise UserError(
                msg("{end} is in the past", end=_format_time(end)),
                field="until",
                hint=msg("Run `holdfast release` to release held tasks now."),
            )
        return end

    async def _request_change(
        self, job: JobSummary, actor: Actor, ask: HoldAction, task: str | None, until: datetime | None = None
    ) -> None:
        request = HoldRequest(actor=actor.name, at=self._clock(), action=ask, task=task, until=until)
        if not await self._control.request_hold_change(job.id, request):
            raise Conflict(msg("{name} ({id}) has already ended", name=job.name, id=job.id))

    def _build_held_job(self, job: JobSummary, tasks: Sequence[TaskAttempt]) -> HeldJob:
        names = {task.task for task in tasks}
        return HeldJob(
            add_held_until(job, self._control),
            tuple(held for held in self.list_held_tasks(job.id) if held.task in names),
        )

    def _build_held_task(self, task: TaskAttempt) -> HeldTask:
        assert task.held is not None
        return HeldTask(
            task=task.task, held=task.held, latest=max(task.held.until, task.held.since + self._max_duration)
        )


def get_held_until(control: Control, job_id: str) -> datetime | None:
    """Return when the last hold of the job expires; None if there is no hold."""
    live = control.get_active_job(job_id)
    ends = [task.held.until for task in live.tasks if task.state is TaskState.HELD and task.held] if live else []
    return max(ends, default=None)


def add_held_until(job: JobSummary, control: Control) -> JobSummary:
    return replace(job, held_until=get_held_until(control, job.id)) if job.state is JobState.HELD else job


def _format_task_names(tasks: Sequence[TaskAttempt]) -> str:
    return ", ".join(task.task for task in tasks[:5]) + (msg(" and others") if len(tasks) > 5 else "")


def _build_hold_hint(tasks: Sequence[TaskAttempt]) -> str:
    held = [task for task in tasks if task.state is TaskState.HELD and task.stop is None]
    return (
        msg("Tasks on hold: {held}.", held=_format_task_names(held))
        if held
        else msg("A task is put on hold only if its command fails and the job sets `hold`.")
    )


def _format_time(at: datetime) -> str:
    return f"{at:%Y-%m-%d %H:%M} UTC"


def _add_duration(at: datetime, by: timedelta) -> datetime:
    try:
        return at + by
    except OverflowError:
        return datetime.max.replace(tzinfo=at.tzinfo)
