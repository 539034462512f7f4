"""Operations on jobs: submit, list, wait, stop and tag."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Unpack

from sqlalchemy import Connection

from holdfast.core.access import Actor
from holdfast.core.errors import Conflict, Forbidden, JobNotFound, NotFound, TooLarge, UserError
from holdfast.core.job import Hold, Job
from holdfast.core.messages import msg
from holdfast.core.notifications import NotifySpec
from holdfast.core.records import (
    Event,
    JobAttempt,
    JobFilter,
    JobSummary,
    NewEvent,
    OffsetPage,
    OffsetPageQuery,
    Page,
    TaskRecord,
)
from holdfast.core.scheduling.placement import StartPrediction
from holdfast.core.slurm_options import RoleOption
from holdfast.core.states import JobState, TaskState
from holdfast.engines.base import Isolation
from holdfast.engines.engine_set import EngineSet
from holdfast.store import people
from holdfast.store.database import Store
from holdfast.store.errors import NameInUse
from holdfast.store.jobs import events as event_rows
from holdfast.store.jobs import records as job_rows

from ..control import Control
from ..cursors import CursorCodec
from ..errors import TagNotFound, build_name_taken_error
from ..inside.holds import add_held_until
from ..job_lookup import MAX_REF_LENGTH, find_job, find_modifiable_job, list_readable_groups
from ..why.blockers import Blockers
from ..why.feasibility import Feasibility, format_missing_image
from ..why.wait_reasons import add_wait_reasons
from .current_tasks import list_current_tasks, load_job_with_tasks
from .group_visibility import limit_filter_to_groups, limit_query_to_groups
from .new_jobs import add_job_to_controller, build_new_job, prepare_job
from .validation import JobOverrides, JobValidator, ValidatedJob

MAX_KEY_LENGTH = 200
MAX_TAG_LENGTH = 255
MAX_LISTED = 500
MAX_EVENTS = 1000
MIN_DETAILS = 10  # always returned, whatever their size
MAX_DETAIL_BYTES = 16 * 1024 * 1024  # of job files in one response


@dataclass(frozen=True, slots=True)
class SubmitResult:
    summary: JobSummary
    warnings: tuple[str, ...]
    created: bool  # False: the job of an earlier request with the same Idempotency-Key


@dataclass(frozen=True, slots=True)
class PlanResult:
    job: Job
    yaml: str
    warnings: tuple[str, ...]
    verdict: StartPrediction
    slurm: tuple[RoleOption, ...]  # empty: another engine would run it


@dataclass(frozen=True, slots=True, kw_only=True)
class JobWithTasks:
    record: job_rows.JobDetail
    tasks: tuple[TaskRecord, ...]  # of the current attempt
    waiting: tuple[str, ...] | None
    time_limit: timedelta | None
    isolation: Isolation
    slurm: tuple[RoleOption, ...]  # empty: another engine runs it, or it has ended


@dataclass(frozen=True, slots=True)
class AttemptTasks:
    attempt: int
    tasks: tuple[TaskRecord, ...]


@dataclass(frozen=True, slots=True)
class StopReport:
    stopped: tuple[str, ...]  # ids of jobs that are stopping or had already ended
    failed: tuple[tuple[str, UserError], ...]


class Jobs:
    def __init__(
        self,
        store: Store,
        engine: EngineSet,
        control: Control,
        intake: JobValidator,
        prospects: Feasibility,
        blockers: Blockers,
        cursors: CursorCodec,
        *,
        clock: Callable[[], datetime],
    ) -> None:
        self._store = store
        self._engine = engine
        self._control = control
        self._validator = intake
        self._feasibility = prospects
        self._blockers = blockers
        self._cursors = cursors
        self._clock = clock

    # -- submitting

    async def plan(self, actor: Actor, text: str, **overrides: Unpack[JobOverrides]) -> PlanResult:
        """Return what would happen if this job were submitted."""

        async def list_reasons(job: Job) -> tuple[str, ...]:
            return await self._feasibility.list_impossible_reasons(job, actor.name)

        ready = await self._validator.validate(actor, text, list_reasons=list_reasons, **overrides)
        verdict = await self._feasibility.predict_start(ready.job, actor.name)
        missing = tuple(
            format_missing_image(role.engine_image) for role in ready.job.roles
        )  # the verdict reports these
        warnings = tuple(warning for warning in ready.warnings if not warning.startswith(missing))
        yaml, slurm = (await self._validator.render_job(ready.job), await self._validator.list_slurm_options(ready.job))
        return PlanResult(ready.job, yaml, warnings, verdict, slurm)

    async def submit(
        self,
        actor: Actor,
        text: str,
        *,
        key: str | None = None,
        unique: bool = False,
        **overrides: Unpack[JobOverrides],
    ) -> SubmitResult:
        """Store a job durably. A request with the same `key` returns the same job. With `unique`, raise NameTaken if
        this user ever had a job of that name."""
        _validate_idempotency_key(key)
        # Report a name in use first. But a repeated key has to find its job.
        early = unique and key is None
        ready = await self._validator.validate(actor, text, unique=early, **overrides)
        return await self._add_job(actor, ready, key=key, unique=unique)

    async def rerun(
        self,
        actor: Actor,
        ref: str,
        *,
        hold: Hold | None = None,
        notify: NotifySpec | None = None,
        key: str | None = None,
    ) -> SubmitResult:
        """Submit the same job again as `actor`. `hold` replaces its hold. Only its owner can rerun a job with secrets:
        another user could expose them, for example by mounting their own folder as a dataset."""
        _validate_idempotency_key(key)
        old = await find_modifiable_job(self._store, actor, ref)
        detail = await self._store.read(job_rows.load_job_detail, old.id)
        snapshot = await self._store.read(job_rows.load_snapshot, old.id)  # with its secrets
        if snapshot.job.secrets and not actor.admin:
            await self._require_owner(actor, old)
        ready = await self._validator.revalidate(actor, snapshot.job, detail.source, hold, notify)
        return await self._add_job(actor, ready, key=key, rerun_of=old.id)

    async def _require_owner(self, actor: Actor, old: JobSummary) -> None:
        """Raise Forbidden unless `actor` is the user who submitted the job, not a later user of the same name."""
        hint = msg("Run `holdfast clone {id}`, fill in your own secrets, and submit the file.", id=old.id)
        if actor.name != old.user:
            raise Forbidden(
                msg("Only {user} can rerun {name}: it contains secrets of {user}", name=old.name, user=old.user),
                hint=hint,
            )
        user = await self._store.read(people.get_user, actor.name)
        if user is None or user.created_at > old.submitted_at:
            raise Forbidden(
                msg(
                    "{name} contains secrets of a deleted user who was also called {user}", name=old.name, user=old.user
                ),
                hint=hint,
            )

    async def _add_job(
        self, actor: Actor, ready: ValidatedJob, *, key: str | None, rerun_of: str | None = None, unique: bool = False
    ) -> SubmitResult:
        warnings = await prepare_job(self._validator, self._feasibility, actor, ready)
        message = (
            msg("Submitted by {name}", name=actor.name)
            if rerun_of is None
            else msg("Rerun of {rerun_of} by {name}", rerun_of=rerun_of, name=actor.name)
        )
        new = build_new_job(actor, ready, self._clock(), message, warnings)
        new = replace(new, idempotency_key=key, rerun_of=rerun_of, unique_name=unique)
        # Shielded: the controller must be notified of a stored job even if the client disconnects.
        inserted = await asyncio.shield(self._insert_job(new))
        if not inserted.created and inserted.summary.group != ready.job.group:
            raise Conflict(
                msg("This idempotency key is already in use by a job in group {group}", group=inserted.summary.group),
                field="idempotency_key",
            )
        return SubmitResult(inserted.summary, warnings, inserted.created)

    async def _insert_job(self, new: job_rows.NewJob) -> job_rows.InsertedJob:
        self._control.prepare_start()
        try:
            inserted = await self._store.write(job_rows.insert_job, new=new)
        except NameInUse:
            raise build_name_taken_error(new.job.name) from None
        if inserted.created:
            add_job_to_controller(self._control, inserted, new)
        return inserted

    # -- reading

    async def list(
        self, actor: Actor, filter: JobFilter, *, limit: int = 50, cursor: str | None = None
    ) -> Page[JobSummary]:
        """List jobs of readable groups, newest first."""
        if not 1 <= limit <= MAX_LISTED:
            raise UserError(msg("limit must be between 1 and {max_listed}", max_listed=MAX_LISTED), field="limit")
        narrowed = limit_filter_to_groups(actor, filter)
        if narrowed.groups == ():
            return Page((), None)
        at = None if cursor is None else str(self._cursors.decode_cursor(cursor))
        page = await self._store.read(job_rows.list_job_page, narrowed, limit, at)
        explained = add_wait_reasons(page.items, self._control)
        following = None if page.next is None else self._cursors.encode_cursor(int(page.next))
        return Page(tuple(add_held_until(job, self._control) for job in explained), following)

    async def get_numbered_page(self, actor: Actor, query: OffsetPageQuery, *, count: bool) -> OffsetPage:
        """Return a page by its number, of readable groups. `count`: also the total number of matches."""
        return await self._store.read(job_rows.list_numbered_page, limit_query_to_groups(actor, query), count=count)

    async def get_numbered_details(
        self, actor: Actor, query: OffsetPageQuery, *, count: bool
    ) -> tuple[tuple[job_rows.JobDetail, ...], int | None]:
        """Return the same page with the details of each job; for short pages."""
        return await self._store.read(_load_details, limit_query_to_groups(actor, query), count)

    async def find_by_name(self, actor: Actor, user: str, name: str) -> JobSummary:
        """Return the newest job of this user with exactly this name."""
        groups = list_readable_groups(actor)
        found = None
        if max(len(user), len(name)) <= MAX_REF_LENGTH and groups != ():
            found = await self._store.read(job_rows.find_newest_named_job, user, name, groups)
        if found is None:
            raise NotFound(msg("{user} has no job {name}", name=name[:100], user=user[:100]))
        return found

    async def find(self, actor: Actor, ref: str) -> JobSummary:
        return await find_job(self._store, actor, ref)

    async def get(self, actor: Actor, ref: str) -> JobWithTasks:
        found = await find_job(self._store, actor, ref)
        record, tries = await self._store.read(load_job_with_tasks, found.id)
        return JobWithTasks(
            record=replace(record, summary=add_held_until(record.summary, self._control)),
            tasks=list_current_tasks(record, tries),
            waiting=await self._blockers.list_wait_reasons(record),
            time_limit=self._control.get_time_limit(record.job),
            isolation=self._engine.find_health(self._control.choose_engine(record.job)).isolation,
            slurm=await self.list_slurm_options(record),
        )

    async def list_slurm_options(self, record: job_rows.JobDetail) -> tuple[RoleOption, ...]:
        """Return the options of its tasks in Slurm; none if another engine runs it, or it has ended."""
        return () if record.summary.state.final else await self._validator.list_slurm_options(record.job)

    async def load_detail(self, actor: Actor, ref: str) -> job_rows.JobDetail:
        found = await find_job(self._store, actor, ref)
        return await self._store.read(job_rows.load_job_detail, found.id)

    def get_time_limit(self, job: Job) -> timedelta | None:
        """Return the time limit in force: the job's, its group's or the server's. None: no limit."""
        return self._control.get_time_limit(job)

    def list_wait_reasons(self, record: job_rows.JobDetail) -> tuple[str, ...] | None:
        pending = record.summary.state is JobState.PENDING
        return self._control.list_wait_reasons(record.summary.id) if pending else None

    async def load_source(self, actor: Actor, ref: str) -> str:
        """Return the submitted file, secrets masked."""
        return (await self.load_detail(actor, ref)).source

    async def export_yaml(self, actor: Actor, ref: str) -> str:
        """Return a file to edit and submit again, secrets masked: in OpenPAI's format for its jobs, else in ours."""
        return await self._validator.render_clone((await self.load_detail(actor, ref)).job)

    async def list_events(self, actor: Actor, ref: str, *, after: int = 0, limit: int = 200) -> Sequence[Event]:
        found = await find_job(self._store, actor, ref)
        return await self._store.read(event_rows.list_events, found.id, after, min(limit, MAX_EVENTS))

    async def list_tasks(self, actor: Actor, ref: str) -> tuple[TaskRecord, ...]:
        found = await find_job(self._store, actor, ref)
        return list_current_tasks(*await self._store.read(load_job_with_tasks, found.id))

    async def list_attempts(self, actor: Actor, ref: str) -> tuple[AttemptTasks, ...]:
        """Return every try of every task, newest attempt first."""
        found = await find_job(self._store, actor, ref)
        by_attempt: dict[int, list[TaskRecord]] = {}
        for record in await self._store.read(job_rows.list_job_tries, found.id):
            by_attempt.setdefault(record.attempt, []).append(record)
        return tuple(AttemptTasks(n, tuple(by_attempt[n])) for n in sorted(by_attempt, reverse=True))

    async def list_tries(self, actor: Actor, ref: str, attempt: int) -> tuple[TaskRecord, ...]:
        found = await find_job(self._store, actor, ref)
        return tuple(await self._store.read(job_rows.list_job_tries, found.id, attempt))

    async def list_past_attempts(self, actor: Actor, ref: str) -> tuple[JobAttempt, ...]:
        """Return the attempts before the current one, oldest first."""
        found = await find_job(self._store, actor, ref)
        return tuple(await self._store.read(job_rows.list_past_attempts, found.id))

    async def wait(self, actor: Actor, ref: str, timeout: float, *, held: bool = False) -> JobSummary:
        """Wait until the job is final (with `held`, also on hold), for at most `timeout` seconds."""
        return await self.wait_for_job(await self.find(actor, ref), timeout, held=held)

    async def wait_for_job(self, job: JobSummary, timeout: float, *, held: bool = False) -> JobSummary:
        """Wait for a job that is already loaded. The caller checks whether the actor can still read it."""
        deadline = time.monotonic() + timeout
        while self._is_wait_needed(job.id, held) and (left := deadline - time.monotonic()) > 0:
            await self._control.wait_for_change(job.id, left)
        return await self._load_summary(job.id)

    # -- changing

    async def stop(self, actor: Actor, ref: str) -> tuple[JobSummary, bool]:
        """Request a stop durably. Return the job, and whether it was still active."""
        found = await find_modifiable_job(self._store, actor, ref)
        stopped = await self._control.stop_job(found.id, actor.name)
        return await self._load_summary(found.id), stopped

    async def stop_many(self, actor: Actor, refs: Sequence[str]) -> StopReport:
        """Stop several jobs. One that cannot be stopped does not affect the others."""
        failed: list[tuple[str, UserError]] = []
        ids: dict[str, None] = {}
        for ref in refs:
            try:
                ids[(await find_modifiable_job(self._store, actor, ref)).id] = None
            except UserError as error:
                failed.append((ref, error))
        await asyncio.gather(*(self._control.stop_job(id, actor.name) for id in ids))  # saved in one write
        return StopReport(tuple(ids), tuple(failed))

    async def tag(self, actor: Actor, ref: str, tag: str) -> JobSummary:
        """Add a tag. Idempotent."""
        _validate_tag(tag)
        found = await find_modifiable_job(self._store, actor, ref)
        event = self._build_tag_event("tagged", msg("Tagged {tag}", tag=tag), actor)
        await self._store.write(job_rows.add_tag, found.id, tag, event=event)
        self._control.changes.publish_job_change(found.id, found.group, found.user)
        return await self._load_summary(found.id)

    async def untag(self, actor: Actor, ref: str, tag: str) -> JobSummary:
        """Remove a tag. NotFound if the job does not have it."""
        found = await find_modifiable_job(self._store, actor, ref)
        event = self._build_tag_event("untagged", msg("Tag {tag} removed", tag=tag[:MAX_TAG_LENGTH]), actor)
        if not await self._store.write(job_rows.remove_tag, found.id, tag, event=event):
            raise TagNotFound(msg("{id} has no tag {tag}", id=found.id, tag=tag[:100]))
        self._control.changes.publish_job_change(found.id, found.group, found.user)
        return await self._load_summary(found.id)

    def _build_tag_event(self, kind: str, message: str, actor: Actor) -> NewEvent:
        return NewEvent(
            kind=kind,
            message=msg("{message} by {name}", message=message, name=actor.name),
            at=self._clock(),
            actor=actor.name,
        )

    def _is_wait_needed(self, job_id: str, held: bool) -> bool:
        """Return whether the job has not reached a final state, or a hold if `held` is set."""
        live = self._control.get_active_job(job_id)
        if live is None:
            return False
        is_held = any(task.state is TaskState.HELD and task.stop is None for task in live.tasks)
        return not (held and live.state is JobState.HELD and is_held)

    async def _load_summary(self, job_id: str) -> JobSummary:
        found = await self._store.read(job_rows.find_job, job_id)
        if found is None:
            raise JobNotFound(msg("Job {job_id} not found", job_id=job_id))
        return add_held_until(found, self._control)


def _load_details(
    conn: Connection, query: OffsetPageQuery, count: bool
) -> tuple[tuple[job_rows.JobDetail, ...], int | None]:
    page = job_rows.list_numbered_page(conn, query, count=count)
    found: list[job_rows.JobDetail] = []
    size = 0
    for summary in page.items:
        if len(found) >= MIN_DETAILS and size > MAX_DETAIL_BYTES:
            hint = msg("Request fewer rows at once.")
            raise TooLarge(msg("These {items} jobs are too large for one response", items=len(page.items)), hint=hint)
        found.append(job_rows.load_job_detail(conn, summary.id))
        size += len(found[-1].source)
    return tuple(found), page.total


def _validate_idempotency_key(key: str | None) -> None:
    if key is not None and not (0 < len(key) <= MAX_KEY_LENGTH and key.isascii() and key.isprintable()):
        raise UserError(
            msg(
                "An idempotency key must have 1 to {max_key_length} printable ASCII characters",
                max_key_length=MAX_KEY_LENGTH,
            ),
            field="Idempotency-Key",
        )


def _validate_tag(tag: str) -> None:
    """Reject commas: clients separate tags with them."""
    plain = "," not in tag and tag.isprintable() and bool(tag.strip())
    if not (plain and len(tag) <= MAX_TAG_LENGTH):
        raise UserError(
            msg(
                "A tag must have 1 to {max_tag_length} printable characters and no comma", max_tag_length=MAX_TAG_LENGTH
            ),
            field="tag",
        )
