"""Schedules: create, change, list and run jobs that are submitted repeatedly.

A job of a schedule belongs to the schedule's owner and is submitted with the owner's permissions at that time.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from sqlalchemy import Connection

from holdfast.core.access import Actor, Permission, build_action_forbidden_error, can_act_on, has_permission
from holdfast.core.audit import AuditAction, AuditKind
from holdfast.core.codec import mask_values
from holdfast.core.errors import Conflict, Forbidden, NotFound, UserError
from holdfast.core.job import Job, JobFormat
from holdfast.core.messages import msg
from holdfast.core.schedule import (
    MissedRunPolicy,
    OverlapPolicy,
    Recurrence,
    RunResult,
    Schedule,
    SchedulePage,
    ScheduleQuery,
    ScheduleRun,
)
from holdfast.store import people
from holdfast.store import schedules as schedule_rows
from holdfast.store.jobs import records as job_rows
from holdfast.store.schedules import NewScheduleRun, StoredSchedule

from ..audit import AuditedStore, AuditEntry, collect_set_fields
from ..control import Control
from ..datasets.job_mounts import remove_dataset_mounts
from ..job_lookup import list_readable_groups
from ..jobs.new_jobs import add_job_to_controller, build_new_job, prepare_job
from ..jobs.service import SubmitResult
from ..jobs.validation import JobValidator, ValidatedJob
from ..people.groups import UNSET, Unset
from ..why.feasibility import Feasibility
from .checks import ScheduleChecks
from .due_actions import get_search_start, refresh_next_run, set_next_run
from .due_runs import DueRuns
from .recurrence import RecurrenceTimes, check_recurrence_length

MAX_LISTED = 500
MAX_LISTED_RUNS = 500
MAX_SCHEDULES_PER_USER = 20_000
MAX_CHANGE_ATTEMPTS = 5  # to change a schedule that is updated concurrently
MAX_ID_LENGTH = 100


@dataclass(frozen=True, slots=True)
class SavedSchedule:
    schedule: Schedule
    warnings: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ScheduleChange:
    """The fields to change; None: unchanged."""

    text: str | None = None  # a new job file
    dialect: str | None = None  # format of that file; None: detected
    file_name: str | None = None  # names a batch script that sets no name
    form: Mapping[str, Any] | None = None  # some fields of PrimeHub's job form; groupId changes the group
    group: str | None = None
    recurrence: Recurrence | None = None
    overlap: OverlapPolicy | None = None
    missed: MissedRunPolicy | None = None
    ends_at: datetime | Unset | None = UNSET
    paused: bool | None = None


class Schedules:
    def __init__(
        self,
        store: AuditedStore,
        control: Control,
        intake: JobValidator,
        prospects: Feasibility,
        timing: RecurrenceTimes,
        *,
        clock: Callable[[], datetime],
    ) -> None:
        self._store = store
        self._control = control
        self._validator = intake
        self._feasibility = prospects
        self._clock = clock
        self.timing = timing
        self._preview_lock = asyncio.Lock()
        self.due_runs = DueRuns(store.unaudited_store, control, intake, timing, clock=clock)

    # -- reading

    async def list(self, actor: Actor, query: ScheduleQuery | None = None) -> SchedulePage:
        """Return the schedules of the groups that the actor can see; other requested groups count as empty."""
        query = query or ScheduleQuery()
        if not 1 <= query.limit <= MAX_LISTED:
            raise UserError(msg("limit must be between 1 and {max_listed}", max_listed=MAX_LISTED), field="limit")
        mine = list_readable_groups(actor)
        if mine is not None:
            asked = mine if query.groups is None else tuple(set(mine).intersection(query.groups))
            query = replace(query, groups=asked)
        page = await self._store.read(schedule_rows.list_schedules, query)
        return SchedulePage(await self._refresh_validity(page.items), page.total)

    async def get(self, actor: Actor, id: str) -> Schedule:
        stored = await self._load_schedule(actor, id)
        return (await self._refresh_validity((stored.schedule,)))[0]

    async def get_changeable_schedule(self, actor: Actor, id: str) -> Schedule:
        """Return a schedule that the actor can change; raise Forbidden if the actor can only see it."""
        stored = await self._load_changeable_schedule(actor, id)
        return (await self._refresh_validity((stored.schedule,)))[0]

    async def list_runs(
        self, actor: Actor, id: str, *, before: int | None = None, limit: int = 50
    ) -> Sequence[ScheduleRun]:
        """Return its runs, newest first; `before` is a seq."""
        stored = await self._load_schedule(actor, id)
        return await self._store.read(schedule_rows.list_runs, stored.schedule.id, before, min(limit, MAX_LISTED_RUNS))

    async def load_newest_runs(self, actor: Actor, shown: Sequence[Schedule]) -> Mapping[str, ScheduleRun]:
        ids = [schedule.id for schedule in shown if has_permission(actor, Permission.SEE_JOB, schedule.group)]
        return await self._store.read(schedule_rows.load_newest_runs, ids)

    async def load_schedule_names(self, actor: Actor, ids: Iterable[str]) -> Mapping[str, str]:
        """Return id -> name of the schedules that the actor can see; jobs only store the id."""
        wanted = sorted(set(ids))
        found = await self._store.read(schedule_rows.load_schedule_names, wanted) if wanted else {}
        return {id: name for id, (name, group) in found.items() if has_permission(actor, Permission.SEE_JOB, group)}

    async def preview_times(
        self, recurrence: Recurrence, count: int = 5, *, ends_at: datetime | None = None
    ) -> tuple[datetime, ...]:
        """Return the next times it would be due; raise InvalidRecurrence if it is invalid. Times decades apart take
        long to find, so one preview runs at a time and yields to the event loop after each."""
        found = []
        async with self._preview_lock:
            for at in self.timing.iter_upcoming_times(recurrence, self._clock(), count, ends_at):
                found.append(at)
                await asyncio.sleep(0)
        return tuple(found)

    # -- writing

    async def create(
        self,
        actor: Actor,
        text: str,
        recurrence: Recurrence,
        *,
        group: str | None = None,
        dialect: str | None = None,
        file_name: str | None = None,
        overlap: OverlapPolicy = OverlapPolicy.SKIP,
        missed: MissedRunPolicy = MissedRunPolicy.SKIP,
        ends_at: datetime | None = None,
        paused: bool = False,
        accept_invalid: bool = False,
    ) -> SavedSchedule:
        """Create a schedule. With `accept_invalid`, an invalid recurrence is stored and reported, as in PrimeHub."""
        now = self._clock()
        check_recurrence_length(recurrence)
        if not accept_invalid:
            self._check_times(recurrence, ends_at, now)
        ready = await self._validator.validate(actor, text, group=group, dialect=dialect, file_name=file_name)
        await self._check_schedule_count(actor)
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
        schedule = set_next_run(await self._revalidate_schedule(StoredSchedule(schedule, ready.job)), now, self.timing)
        entry = _build_schedule_entry(
            actor, AuditAction.CREATED, lambda created: str(created.id), schedule, {"when": recurrence}
        )
        made = await self._store.write(entry, schedule_rows.create_schedule, schedule=schedule, job=ready.job)
        self.due_runs.wake()
        return SavedSchedule(_mask_schedule(made), ready.warnings)

    async def change(
        self, actor: Actor, id: str, change: ScheduleChange, *, accept_invalid: bool = False
    ) -> SavedSchedule:
        for _ in range(MAX_CHANGE_ATTEMPTS):
            stored = await self._load_changeable_schedule(actor, id)
            changed, warnings, job = await self._apply_change(actor, stored, change, accept_invalid)
            run = _build_dropped_run(stored.schedule, changed, self._clock())
            entry = _build_schedule_entry(actor, AuditAction.CHANGED, changed.id, changed, _summarize_change(change))
            try:
                saved = await self._store.write(entry, _save_schedule, changed, job, run)
            except _ConcurrentChange:
                continue
            self.due_runs.wake()
            return SavedSchedule(_mask_schedule(saved), warnings)
        raise Conflict(
            msg("{id} was changed at the same time by another request", id=id[:MAX_ID_LENGTH]), hint=msg("Try again.")
        )

    async def pause(self, actor: Actor, id: str) -> Schedule:
        return (await self.change(actor, id, ScheduleChange(paused=True))).schedule

    async def resume(self, actor: Actor, id: str) -> Schedule:
        """Resume with the next time; times during the pause do not count as missed."""
        return (await self.change(actor, id, ScheduleChange(paused=False))).schedule

    async def delete(self, actor: Actor, id: str) -> Schedule:
        """Delete the schedule with its runs; its jobs are kept."""
        stored = await self._load_changeable_schedule(actor, id)
        entry = _build_schedule_entry(actor, AuditAction.REMOVED, stored.schedule.id, stored.schedule)
        await self._store.write(entry, schedule_rows.delete_schedule, stored.schedule.id)
        return stored.schedule

    async def run_schedule_now(self, actor: Actor, id: str) -> SubmitResult:
        """Submit one job from its template as the actor, independently of its due times."""
        stored = await self._load_changeable_schedule(actor, id)
        schedule = stored.schedule
        if stored.job.secrets and not _is_owner_or_admin(actor, schedule):
            raise Forbidden(
                msg(
                    "{name} contains secrets of {user}, so only {user} can run it immediately",
                    name=schedule.name,
                    user=schedule.user,
                )
            )
        ready = await self._validator.revalidate(actor, stored.job, schedule.source)
        warnings = await prepare_job(self._validator, self._feasibility, actor, ready)
        now = self._clock()
        message = msg("Submitted by {name} from the schedule {id}", name=actor.name, id=schedule.id)
        new = build_new_job(actor, ready, now, message, warnings)
        run = NewScheduleRun(due_at=now, at=now, result=RunResult.STARTED, actor=actor.name)
        # Shielded: once the job may be stored, the controller must be notified, even if the client disconnects.
        inserted = await asyncio.shield(self._store_and_announce_run(schedule.id, run, new))
        return SubmitResult(inserted.summary, warnings, created=True)

    async def _store_and_announce_run(self, id: str, run: NewScheduleRun, new: job_rows.NewJob) -> job_rows.InsertedJob:
        inserted = await self._store.write_unaudited(
            schedule_rows.insert_manual_run, id, run, new
        )  # its job has its own events
        add_job_to_controller(self._control, inserted, new)
        return inserted

    async def _apply_change(
        self, actor: Actor, stored: StoredSchedule, change: ScheduleChange, accept_invalid: bool
    ) -> tuple[Schedule, tuple[str, ...], Job | None]:
        """Return the changed schedule, the warnings, and the new template if there is one."""
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
        check_recurrence_length(schedule.recurrence)
        if not accept_invalid and (schedule.recurrence, schedule.ends_at) != (old.recurrence, old.ends_at):
            self._check_times(schedule.recurrence, schedule.ends_at, now)
        warnings: tuple[str, ...] = ()
        job = None
        ready = await self._validate_new_template(actor, stored, change)
        if ready is not None:
            job, warnings = ready.job, ready.warnings
            schedule = replace(schedule, name=job.name, group=job.group, job=job, source=ready.source)
            await self._check_owner_data_access(actor, StoredSchedule(old, stored.job), StoredSchedule(schedule, job))
        schedule = await self._revalidate_schedule(StoredSchedule(schedule, job or stored.job))
        return self._reschedule(schedule, old, now), warnings, job

    def _reschedule(self, schedule: Schedule, old: Schedule, now: datetime) -> Schedule:
        """Update the next run; a time that is already due stays due unless the times were changed."""
        if schedule.paused:
            return replace(schedule, next_run_at=None, queued_at=None)
        same = (schedule.recurrence, schedule.ends_at, schedule.paused) == (old.recurrence, old.ends_at, old.paused)
        if same and old.next_run_at is not None:
            return schedule
        return set_next_run(schedule, get_search_start(schedule, now), self.timing)

    async def _validate_new_template(
        self, actor: Actor, stored: StoredSchedule, change: ScheduleChange
    ) -> ValidatedJob | None:
        """Validate the new template as a submission of the actor; None if it is unchanged."""
        old, form = stored.schedule, dict(change.form or {})
        group = form.pop("groupId", None) or form.pop("groupName", None) or change.group or old.group
        if change.text is not None:
            return await self._validator.validate(
                actor, change.text, group=group, dialect=change.dialect, file_name=change.file_name
            )
        if form and old.job.dialect is not JobFormat.PRIMEHUB:
            raise UserError(
                msg("{name} is not in PrimeHub's format, so single fields cannot be changed", name=old.name),
                field=next(iter(form)),
                hint=msg("Change its job file: `holdfast schedule set {id} --file FILE`.", id=old.id),
            )
        if old.job.dialect is JobFormat.PRIMEHUB:
            before = to_primehub_form(old.job)
            after = {**before, **form}
            if (after, group) == (before, old.group):
                return None
            text = json.dumps({**after, "groupId": group})
            return await self._validator.validate(actor, text, group=group, dialect=JobFormat.PRIMEHUB)
        if group == old.group:
            return None
        job = replace(stored.job, group=group)
        return await self._validator.revalidate(actor, job, await self._validator.render_clone(job))

    async def _check_owner_data_access(self, actor: Actor, before: StoredSchedule, after: StoredSchedule) -> None:
        """Its jobs run as its owner, so reject a change by others that gives them access to the owner's data."""
        schedule = before.schedule
        if _is_owner_or_admin(actor, schedule):
            return
        if before.job.notify != after.job.notify:
            raise _build_owner_only_error(
                schedule, msg("its jobs send notifications on behalf of {user}", user=schedule.user)
            )
        if _strip_fields_others_can_change(before.job) == _strip_fields_others_can_change(after.job):
            return
        if before.job.secrets or after.job.secrets:
            raise _build_owner_only_error(schedule, msg("its job file contains secrets"))
        found = await self._create_checks().check_schedule(after)
        if found.ready is None:
            raise _build_owner_only_error(
                schedule,
                msg("the files that its jobs can access cannot be determined ({message})", message=found.message),
            )
        if [role.mounts for role in found.ready.job.roles] != [role.mounts for role in after.job.roles]:
            raise _build_owner_only_error(schedule, msg("it mounts folders of {user}", user=schedule.user))
        if after.job.dialect is JobFormat.PRIMEHUB and (
            beyond := await self._find_foreign_volume_group(actor, schedule.user)
        ):
            raise _build_owner_only_error(
                schedule,
                msg(
                    "its jobs can access the shared volume of {beyond}, and you are not a member of that group",
                    beyond=beyond,
                ),
            )

    async def _find_foreign_volume_group(self, actor: Actor, owner: str) -> str | None:
        """Return a group whose shared volume the owner's jobs can access and the actor's jobs cannot."""
        user = await self._store.read(people.get_user, owner)
        groups = await self._store.read(people.list_groups)
        open_to = {group.name for group in groups if group.shared_volume and not group.launch_only}
        return next(iter(sorted(open_to.intersection(user.groups if user else ()).difference(actor.groups))), None)

    # -- helpers

    def _create_checks(self) -> ScheduleChecks:
        return ScheduleChecks(self._store.unaudited_store, self._validator)

    async def _revalidate_schedule(self, stored: StoredSchedule) -> Schedule:
        return (await self._create_checks().check_schedule(stored)).apply_to_schedule(stored.schedule)

    async def _refresh_validity(self, shown: Sequence[Schedule]) -> tuple[Schedule, ...]:
        """Revalidate the schedules and save changes, so that lists show them too."""
        checks, now = self._create_checks(), self._clock()
        found = []
        for schedule in shown:
            noted = (await checks.check_schedule(StoredSchedule(schedule, schedule.job))).apply_to_schedule(schedule)
            await asyncio.sleep(0)  # a page is long: yield to other tasks
            found.append(noted if noted == schedule else refresh_next_run(noted, now, self.timing))
        moved = [after for after, before in zip(found, shown, strict=True) if after != before]
        if moved:
            await self._store.write_unaudited(schedule_rows.record_validity, moved)
        return tuple(found)

    async def _load_schedule(self, actor: Actor, id: str) -> StoredSchedule:
        """Load a schedule; raise NotFound also if the actor cannot see it."""
        found = await self._store.read(schedule_rows.load_schedule, id) if len(id) <= MAX_ID_LENGTH else None
        if found is None or not has_permission(actor, Permission.SEE_JOB, found.schedule.group):
            raise NotFound(
                msg("Schedule {id} not found", id=id[:MAX_ID_LENGTH]),
                hint=msg("Run `holdfast schedule ls` to list schedules."),
            )
        return found

    async def _load_changeable_schedule(self, actor: Actor, id: str) -> StoredSchedule:
        found = await self._load_schedule(actor, id)
        schedule = found.schedule
        if not can_act_on(actor, schedule.group, schedule.user):
            raise build_action_forbidden_error(schedule.group, schedule.user, member=schedule.group in actor.groups)
        return found

    def _check_times(self, recurrence: Recurrence, ends_at: datetime | None, now: datetime) -> None:
        self.timing.check_recurrence(recurrence, now)
        if ends_at is not None and ends_at <= now:
            raise UserError(msg("The end time is in the past"), field="ends_at", hint=msg("Set a time in the future."))

    async def _check_schedule_count(self, actor: Actor) -> None:
        if await self._store.read(schedule_rows.count_user_schedules, actor.name) >= MAX_SCHEDULES_PER_USER:
            raise UserError(
                msg("A user can have at most {max_per_user} schedules", max_per_user=MAX_SCHEDULES_PER_USER),
                hint=msg("Delete some first."),
            )


class _ConcurrentChange(Exception):
    """The schedule was changed concurrently, and nothing is written."""


def _save_schedule(conn: Connection, schedule: Schedule, job: Job | None, run: NewScheduleRun | None) -> Schedule:
    saved = schedule_rows.update_schedule(conn, schedule=schedule, job=job, run=run)
    if saved is None:
        raise _ConcurrentChange
    return saved


def _build_schedule_entry(
    actor: Actor,
    act: AuditAction,
    id: str | Callable[[Any], str],
    schedule: Schedule,
    detail: Mapping[str, Any] | None = None,
) -> AuditEntry:
    detail = {"name": schedule.name, "group": schedule.group, **(detail or {})}
    return AuditEntry(actor.name, AuditKind.SCHEDULE, act, id, detail)


_FILE_FIELDS = ("text", "form", "dialect", "file_name")


def _summarize_change(change: ScheduleChange) -> dict[str, Any]:
    """Return the changed fields for the audit, without the job file, which may contain secrets."""
    return {key: value for key, value in collect_set_fields(change).items() if key not in _FILE_FIELDS}


def _build_dropped_run(before: Schedule, after: Schedule, now: datetime) -> NewScheduleRun | None:
    if before.queued_at is None or after.queued_at is not None:
        return None
    return NewScheduleRun(
        due_at=before.queued_at,
        at=now,
        result=RunResult.SKIPPED,
        message=msg("The schedule was paused while this run was queued"),
    )


def to_primehub_form(job: Job) -> dict[str, Any]:
    """Return a job in PrimeHub's format as its form, without the group."""
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


def _is_owner_or_admin(actor: Actor, schedule: Schedule) -> bool:
    return actor.admin or actor.name == schedule.user


def _strip_fields_others_can_change(job: Job) -> Job:
    """Return the job without name, description, time limit, tags, priority and dataset mounts."""
    kept = job.extras.get("primehub")
    form = {key: value for key, value in kept.items() if key != "groupId"} if isinstance(kept, Mapping) else kept
    plain = replace(remove_dataset_mounts(job), name="", description="", time_limit=None, tags=(), priority=0)
    return replace(plain, extras={**job.extras, "primehub": form})


def _build_owner_only_error(schedule: Schedule, why: str) -> Forbidden:
    return Forbidden(
        msg(
            "Only {user} and admins can change the job of {name}: {why}",
            user=schedule.user,
            name=schedule.name,
            why=why,
        ),
        hint=msg("You can change its times or pause it. To run another job, create your own schedule."),
    )


def _mask_schedule(schedule: Schedule) -> Schedule:
    return replace(schedule, job=replace(schedule.job, secrets=mask_values(schedule.job.secrets)))
