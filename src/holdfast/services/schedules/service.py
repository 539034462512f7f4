"""Schedules: jobs that are submitted again and again, and what a user can do with them.

A job of a schedule is its owner's, and is submitted with the rights the owner has at that time.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from sqlalchemy import Connection

from holdfast.core.access import Actor, Verb, may, may_act, refuse_act
from holdfast.core.audit import Act, AuditKind
from holdfast.core.codec import mask
from holdfast.core.errors import Conflict, Forbidden, NotFound, UserError
from holdfast.core.job import Dialect, Job
from holdfast.core.messages import msg
from holdfast.core.schedule import (
    Missed,
    Overlap,
    Recurrence,
    Run,
    RunResult,
    Schedule,
    SchedulePage,
    ScheduleQuery,
)
from holdfast.store import people
from holdfast.store import schedules as schedule_rows
from holdfast.store.jobs import records as job_rows
from holdfast.store.schedules import NewRun, Stored

from ..audit import AuditedStore, AuditEntry, given
from ..control import Control
from ..datasets.job_mounts import without_datasets
from ..job_lookup import readable_groups
from ..jobs.service import Submitted
from ..jobs.validation import JobValidator, Ready
from ..people.groups import UNSET, Unset
from ..why.feasibility import Prospects
from .checks import Checks
from .due_actions import looked_from, retimed, with_next
from .due_runs import DueRuns, new_job, tell
from .recurrence import Timing, check_length

MAX_LISTED = 500
MAX_RUNS = 500
MAX_PER_USER = 20_000
TRIES = 5  # to change a schedule that is just moving on
MAX_ID_LENGTH = 100


@dataclass(frozen=True, slots=True)
class Scheduled:
    schedule: Schedule
    warnings: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ScheduleChange:
    """None: as it is."""

    text: str | None = None  # another job file
    dialect: str | None = None  # of that file; None: as it looks
    form: Mapping[str, Any] | None = None  # some fields of PrimeHub's job form; groupId moves it
    group: str | None = None
    recurrence: Recurrence | None = None
    overlap: Overlap | None = None
    missed: Missed | None = None
    ends_at: datetime | Unset | None = UNSET
    paused: bool | None = None


class Schedules:
    def __init__(
        self,
        store: AuditedStore,
        control: Control,
        intake: JobValidator,
        prospects: Prospects,
        timing: Timing,
        *,
        clock: Callable[[], datetime],
    ) -> None:
        self._store = store
        self._control = control
        self._intake = intake
        self._prospects = prospects
        self._clock = clock
        self.timing = timing
        self._looking_ahead = asyncio.Lock()
        self.due = DueRuns(store.plain, control, intake, timing, clock=clock)

    # -- looking

    async def list(self, actor: Actor, query: ScheduleQuery | None = None) -> SchedulePage:
        """Within the groups one may see; groups asked for beyond them are as if they were empty."""
        query = query or ScheduleQuery()
        if not 1 <= query.limit <= MAX_LISTED:
            raise UserError(msg("limit is between 1 and {most_listed}", most_listed=MAX_LISTED), field="limit")
        mine = readable_groups(actor)
        if mine is not None:
            asked = mine if query.groups is None else tuple(set(mine).intersection(query.groups))
            query = replace(query, groups=asked)
        page = await self._store.read(schedule_rows.list_schedules, query)
        return SchedulePage(await self._fresh(page.items), page.total)

    async def get(self, actor: Actor, id: str) -> Schedule:
        stored = await self._find(actor, id)
        return (await self._fresh((stored.schedule,)))[0]

    async def get_own(self, actor: Actor, id: str) -> Schedule:
        """One that the actor may also change; whoever may only see it is told so."""
        stored = await self._find_own(actor, id)
        return (await self._fresh((stored.schedule,)))[0]

    async def runs(self, actor: Actor, id: str, *, before: int | None = None, limit: int = 50) -> Sequence[Run]:
        """What came of each time it was due, newest first; `before` is a seq."""
        stored = await self._find(actor, id)
        return await self._store.read(schedule_rows.list_runs, stored.schedule.id, before, min(limit, MAX_RUNS))

    async def newest_runs(self, actor: Actor, shown: Sequence[Schedule]) -> Mapping[str, Run]:
        """Schedule -> what came of it last, for those of a list."""
        ids = [schedule.id for schedule in shown if may(actor, Verb.SEE_JOB, schedule.group)]
        return await self._store.read(schedule_rows.newest_runs, ids)

    async def names(self, actor: Actor, ids: Iterable[str]) -> Mapping[str, str]:
        """Id -> name, of those that exist and may be seen: for jobs, which only know the id."""
        wanted = sorted(set(ids))
        found = await self._store.read(schedule_rows.names, wanted) if wanted else {}
        return {id: name for id, (name, group) in found.items() if may(actor, Verb.SEE_JOB, group)}

    async def preview(
        self, recurrence: Recurrence, count: int = 5, *, ends_at: datetime | None = None
    ) -> tuple[datetime, ...]:
        """The next times it would be due; BadRecurrence says what is wrong with it. Times that lie decades apart take
        long to find: one is looked for at a time, and everybody has their turn after each."""
        found = []
        async with self._looking_ahead:
            for at in self.timing.upcoming(recurrence, self._clock(), count, ends_at):
                found.append(at)
                await asyncio.sleep(0)
        return tuple(found)

    # -- making and changing

    async def create(
        self,
        actor: Actor,
        text: str,
        recurrence: Recurrence,
        *,
        group: str | None = None,
        dialect: str | None = None,
        overlap: Overlap = Overlap.SKIP,
        missed: Missed = Missed.SKIP,
        ends_at: datetime | None = None,
        paused: bool = False,
        accept_invalid: bool = False,
    ) -> Scheduled:
        """With `accept_invalid`, a recurrence that cannot be is kept and told of, as PrimeHub does; else refused."""
        now = self._clock()
        check_length(recurrence)
        if not accept_invalid:
            self._check_times(recurrence, ends_at, now)
        ready = await self._intake.read(actor, text, group=group, dialect=dialect)
        await self._check_number(actor)
        schedule = Schedule(
            id="",
            name=ready.job.name,
            user=actor.name,
            group=ready.job.group,
            job=ready.job,
            source=ready.source,
            recurrence=recurrence,
            overlap=overlap,
            missed=missed,
            ends_at=ends_at,
            paused=paused,
            created_at=now,
            updated_at=now,
        )
        schedule = with_next(await self._checked(Stored(schedule, ready.job)), now, self.timing)
        deed = _deed(actor, Act.CREATED, lambda made: str(made.id), schedule, {"when": recurrence})
        made = await self._store.write(deed, schedule_rows.create_schedule, schedule=schedule, job=ready.job)
        self.due.stir()
        return Scheduled(_masked(made), ready.warnings)

    async def change(self, actor: Actor, id: str, change: ScheduleChange, *, accept_invalid: bool = False) -> Scheduled:
        for _ in range(TRIES):
            stored = await self._find_own(actor, id)
            changed, warnings, job = await self._changed(actor, stored, change, accept_invalid)
            run = _dropped(stored.schedule, changed, self._clock())
            deed = _deed(actor, Act.CHANGED, changed.id, changed, _told(change))
            try:
                saved = await self._store.write(deed, _save, changed, job, run)
            except _Moved:
                continue
            self.due.stir()
            return Scheduled(_masked(saved), warnings)
        raise Conflict(msg("{id} is changing all the time", id=id[:MAX_ID_LENGTH]), hint=msg("Try again."))

    async def pause(self, actor: Actor, id: str) -> Schedule:
        return (await self.change(actor, id, ScheduleChange(paused=True))).schedule

    async def resume(self, actor: Actor, id: str) -> Schedule:
        """From its next time on: what was due meanwhile was not missed."""
        return (await self.change(actor, id, ScheduleChange(paused=False))).schedule

    async def delete(self, actor: Actor, id: str) -> Schedule:
        """With its history; its jobs stay."""
        stored = await self._find_own(actor, id)
        deed = _deed(actor, Act.REMOVED, stored.schedule.id, stored.schedule)
        await self._store.write(deed, schedule_rows.delete_schedule, stored.schedule.id)
        return stored.schedule

    async def run_now(self, actor: Actor, id: str) -> Submitted:
        """One job from its template, as whoever asks. It has nothing to do with the times the schedule is due."""
        stored = await self._find_own(actor, id)
        schedule = stored.schedule
        if stored.job.secrets and not _is_owner(actor, schedule):
            raise Forbidden(
                msg(
                    "{name} has secrets of {user}, so only {user} can run it now",
                    name=schedule.name,
                    user=schedule.user,
                )
            )
        ready = await self._intake.again(actor, stored.job, schedule.source)
        await self._intake.prepare(actor, ready)
        never = await self._prospects.never(ready.job, actor.name)
        warnings = (*ready.warnings, *(msg("it can never run here: {reason}", reason=reason) for reason in never))
        now = self._clock()
        message = msg("Submitted by {name}, from the schedule {id}", name=actor.name, id=schedule.id)
        new = new_job(actor, ready, now, message, warnings)
        run = NewRun(due_at=now, at=now, result=RunResult.STARTED, actor=actor.name)
        # Shielded: once it may be on disk, the controller has to hear of it, also if the client is gone.
        inserted = await asyncio.shield(self._run_once(schedule.id, run, new))
        return Submitted(inserted.summary, warnings, created=True)

    async def _run_once(self, id: str, run: NewRun, new: job_rows.NewJob) -> job_rows.Inserted:
        inserted = await self._store.write_quietly(
            schedule_rows.run_once, id, run, new
        )  # its job has events of its own
        tell(self._control, inserted, new)
        return inserted

    async def _changed(
        self, actor: Actor, stored: Stored, change: ScheduleChange, accept_invalid: bool
    ) -> tuple[Schedule, tuple[str, ...], Job | None]:
        """The schedule after it, what to tell, and its new template if it has one."""
        old, now = stored.schedule, self._clock()
        schedule = replace(
            old,
            recurrence=change.recurrence or old.recurrence,
            overlap=change.overlap or old.overlap,
            missed=change.missed or old.missed,
            ends_at=old.ends_at if isinstance(change.ends_at, Unset) else change.ends_at,
            paused=old.paused if change.paused is None else change.paused,
            updated_at=now,
        )
        check_length(schedule.recurrence)
        if not accept_invalid and (schedule.recurrence, schedule.ends_at) != (old.recurrence, old.ends_at):
            self._check_times(schedule.recurrence, schedule.ends_at, now)
        warnings: tuple[str, ...] = ()
        job = None
        ready = await self._new_template(actor, stored, change)
        if ready is not None:
            job, warnings = ready.job, ready.warnings
            schedule = replace(schedule, name=job.name, group=job.group, job=job, source=ready.source)
            await self._guard_owner(actor, Stored(old, stored.job), Stored(schedule, job))
        schedule = await self._checked(Stored(schedule, job or stored.job))
        return self._timed(schedule, old, now), warnings, job

    def _timed(self, schedule: Schedule, old: Schedule, now: datetime) -> Schedule:
        """A time that is due and not yet dealt with stays due, unless when it runs was changed."""
        if schedule.paused:
            return replace(schedule, next_run_at=None, queued_at=None)
        same = (schedule.recurrence, schedule.ends_at, schedule.paused) == (old.recurrence, old.ends_at, old.paused)
        if same and old.next_run_at is not None:
            return schedule
        return with_next(schedule, looked_from(schedule, now), self.timing)

    async def _new_template(self, actor: Actor, stored: Stored, change: ScheduleChange) -> Ready | None:
        """Read and allowed as if whoever changes it submitted it; None when it stays as it is."""
        old, form = stored.schedule, dict(change.form or {})
        group = form.pop("groupId", None) or form.pop("groupName", None) or change.group or old.group
        if change.text is not None:
            return await self._intake.read(actor, change.text, group=group, dialect=change.dialect)
        if form and old.job.dialect is not Dialect.PRIMEHUB:
            raise UserError(
                msg("{name} is not in PrimeHub's form, so single fields of it cannot be changed", name=old.name),
                field=next(iter(form)),
                hint=msg("Change its job file: `holdfast schedule set {id} --file FILE`.", id=old.id),
            )
        if old.job.dialect is Dialect.PRIMEHUB:
            before = primehub_form(old.job)
            after = {**before, **form}
            if (after, group) == (before, old.group):
                return None
            text = json.dumps({**after, "groupId": group})
            return await self._intake.read(actor, text, group=group, dialect=Dialect.PRIMEHUB)
        if group == old.group:
            return None
        job = replace(stored.job, group=group)
        return await self._intake.again(actor, job, await self._intake.clone(job))

    async def _guard_owner(self, actor: Actor, before: Stored, after: Stored) -> None:
        """Its jobs run as its owner: others change what they do only where that gives them nothing of the owner's."""
        schedule = before.schedule
        if _is_owner(actor, schedule):
            return
        if before.job.notify != after.job.notify:
            raise _owners_own(schedule, msg("notifications of its jobs are sent for {user}", user=schedule.user))
        if _work(before.job) == _work(after.job):
            return
        if before.job.secrets or after.job.secrets:
            raise _owners_own(schedule, msg("its job file has secrets"))
        found = await self._checks().look(after)
        if found.ready is None:
            raise _owners_own(
                schedule, msg("what its jobs would see cannot be worked out ({message})", message=found.message)
            )
        if [role.mounts for role in found.ready.job.roles] != [role.mounts for role in after.job.roles]:
            raise _owners_own(schedule, msg("it mounts folders of {user}'s own", user=schedule.user))
        if after.job.dialect is Dialect.PRIMEHUB and (beyond := await self._beyond(actor, schedule.user)):
            raise _owners_own(
                schedule, msg("its jobs see the shared volume of {beyond}, where you are not", beyond=beyond)
            )

    async def _beyond(self, actor: Actor, owner: str) -> str | None:
        """A group whose shared volume the owner's jobs see from other groups too, and the actor's do not."""
        user = await self._store.read(people.get_user, owner)
        groups = await self._store.read(people.list_groups)
        open_to = {group.name for group in groups if group.shared_volume and not group.launch_only}
        return next(iter(sorted(open_to.intersection(user.groups if user else ()).difference(actor.groups))), None)

    # -- small things

    def _checks(self) -> Checks:
        return Checks(self._store.plain, self._intake)

    async def _checked(self, stored: Stored) -> Schedule:
        return (await self._checks().look(stored)).noted(stored.schedule)

    async def _fresh(self, shown: Sequence[Schedule]) -> tuple[Schedule, ...]:
        """With what is wrong with them now; what changed is kept, so that lists tell it too."""
        checks, now = self._checks(), self._clock()
        found = []
        for schedule in shown:
            noted = (await checks.look(Stored(schedule, schedule.job))).noted(schedule)
            await asyncio.sleep(0)  # a page is long, and others have their turn, too
            found.append(noted if noted == schedule else retimed(noted, now, self.timing))
        moved = [after for after, before in zip(found, shown, strict=True) if after != before]
        if moved:
            await self._store.write_quietly(schedule_rows.note_validity, moved)
        return tuple(found)

    async def _find(self, actor: Actor, id: str) -> Stored:
        """What one may not see is not there."""
        found = await self._store.read(schedule_rows.load_schedule, id) if len(id) <= MAX_ID_LENGTH else None
        if found is None or not may(actor, Verb.SEE_JOB, found.schedule.group):
            raise NotFound(
                msg("There is no schedule {id}", id=id[:MAX_ID_LENGTH]), hint=msg("`holdfast schedule ls` lists them.")
            )
        return found

    async def _find_own(self, actor: Actor, id: str) -> Stored:
        """One that the actor may also act on."""
        found = await self._find(actor, id)
        schedule = found.schedule
        if not may_act(actor, schedule.group, schedule.user):
            raise refuse_act(schedule.group, schedule.user, member=schedule.group in actor.groups)
        return found

    def _check_times(self, recurrence: Recurrence, ends_at: datetime | None, now: datetime) -> None:
        self.timing.check(recurrence, now)
        if ends_at is not None and ends_at <= now:
            raise UserError(
                msg("It would end before it begins"), field="ends_at", hint=msg("Give a moment that is to come.")
            )

    async def _check_number(self, actor: Actor) -> None:
        if await self._store.read(schedule_rows.count_of_user, actor.name) >= MAX_PER_USER:
            raise UserError(
                msg("A user may have at most {most_per_user} schedules", most_per_user=MAX_PER_USER),
                hint=msg("Delete some first."),
            )


class _Moved(Exception):
    """It was changed meanwhile: nothing is written."""


def _save(conn: Connection, schedule: Schedule, job: Job | None, run: NewRun | None) -> Schedule:
    saved = schedule_rows.update_schedule(conn, schedule=schedule, job=job, run=run)
    if saved is None:
        raise _Moved
    return saved


def _deed(
    actor: Actor,
    act: Act,
    id: str | Callable[[Any], str],
    schedule: Schedule,
    detail: Mapping[str, Any] | None = None,
) -> AuditEntry:
    told = {"name": schedule.name, "group": schedule.group, **(detail or {})}
    return AuditEntry(actor=actor.name, kind=AuditKind.SCHEDULE, act=act, subject=id, detail=told)


def _told(change: ScheduleChange) -> dict[str, Any]:
    """A job file is kept with the schedule, and may hold secrets."""
    return {key: value for key, value in given(change).items() if key not in ("text", "form", "dialect")}


def _dropped(before: Schedule, after: Schedule, now: datetime) -> NewRun | None:
    """The row for a run that waited and will not be."""
    if before.queued_at is None or after.queued_at is not None:
        return None
    return NewRun(due_at=before.queued_at, at=now, result=RunResult.SKIPPED, message=msg("Paused while it waited"))


def primehub_form(job: Job) -> dict[str, Any]:
    """A job that came in PrimeHub's form, as that form; less its group."""
    role, kept = job.roles[0], job.extras.get("primehub")
    form = {
        "displayName": job.name,
        "command": role.commands[0],
        "image": role.image,
        "instanceType": kept.get("instanceType") if isinstance(kept, Mapping) else None,
    }
    if job.time_limit is not None:
        form["activeDeadlineSeconds"] = int(job.time_limit.total_seconds())
    return form


def _is_owner(actor: Actor, schedule: Schedule) -> bool:
    return actor.admin or actor.name == schedule.user


def _work(job: Job) -> Job:
    """What it does and where, without what it is called, how long it may take, and what datasets gave it."""
    kept = job.extras.get("primehub")
    form = {key: value for key, value in kept.items() if key != "groupId"} if isinstance(kept, Mapping) else kept
    plain = replace(without_datasets(job), name="", description="", time_limit=None, tags=(), priority=0)
    return replace(plain, extras={**job.extras, "primehub": form})


def _owners_own(schedule: Schedule, why: str) -> Forbidden:
    return Forbidden(
        msg("Only {user} and admins change what {name} runs: {why}", user=schedule.user, name=schedule.name, why=why),
        hint=msg("Its times can be changed, and it can be paused. For another job, make a schedule of your own."),
    )


def _masked(schedule: Schedule) -> Schedule:
    return replace(schedule, job=replace(schedule.job, secrets=mask(schedule.job.secrets)))
