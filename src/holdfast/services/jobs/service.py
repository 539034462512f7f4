"""Jobs: what a user can do with them."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from sqlalchemy import Connection

from holdfast.core.access import Actor
from holdfast.core.attempt import JobSnapshot, TaskAttempt
from holdfast.core.attempt_id import AttemptId
from holdfast.core.errors import Conflict, Forbidden, NotFound, TooLarge, UserError
from holdfast.core.job import Hold, Job
from holdfast.core.messages import msg
from holdfast.core.notifications import Notify
from holdfast.core.plan import fresh_tasks
from holdfast.core.records import (
    Event,
    JobAttempt,
    JobFilter,
    JobSummary,
    NewEvent,
    NumberedPage,
    NumberedQuery,
    Page,
    TaskRecord,
)
from holdfast.core.scheduling.placement import Verdict
from holdfast.core.states import JobState, TaskState
from holdfast.engines.base import Engine, Isolation
from holdfast.store import people
from holdfast.store.database import Store
from holdfast.store.errors import NameInUse
from holdfast.store.jobs import events as event_rows
from holdfast.store.jobs import records as job_rows

from ..control import Control
from ..cursors import Cursors
from ..inside.holds import with_hold
from ..job_lookup import MAX_REF_LENGTH, find_job, find_own_job, readable_groups
from ..name_suggestions import nearest
from ..refusals import NoTag, name_taken
from ..why.blockers import Blockers
from ..why.feasibility import Prospects, missing_image
from ..why.waits import with_reasons
from .validation import JobValidator, Ready

MAX_KEY_LENGTH = 200
MAX_TAG_LENGTH = 255
MAX_LISTED = 500
MAX_EVENTS = 1000
MAX_WARNINGS = 20  # of one job, kept as events
MAX_WARNING_LENGTH = 1000
FEW_DETAILS = 10  # are always given
MAX_DETAIL_BYTES = 16 * 1024 * 1024  # of job files, where more are asked for


@dataclass(frozen=True, slots=True)
class Submitted:
    summary: JobSummary
    warnings: tuple[str, ...]
    created: bool  # False: the same Idempotency-Key was sent before, and this is that job


@dataclass(frozen=True, slots=True)
class Planned:
    job: Job
    yaml: str
    warnings: tuple[str, ...]
    verdict: Verdict


@dataclass(frozen=True, slots=True, kw_only=True)
class Detail:
    record: job_rows.JobDetail
    tasks: tuple[TaskRecord, ...]  # of the current attempt
    waiting: tuple[str, ...] | None
    time_limit: timedelta | None
    isolation: Isolation


@dataclass(frozen=True, slots=True)
class AttemptTasks:
    attempt: int
    tasks: tuple[TaskRecord, ...]


@dataclass(frozen=True, slots=True)
class StopReport:
    stopped: tuple[str, ...]  # ids of jobs that stop, or had ended before
    failed: tuple[tuple[str, UserError], ...]


class Jobs:
    def __init__(
        self,
        store: Store,
        engine: Engine,
        control: Control,
        intake: JobValidator,
        prospects: Prospects,
        blockers: Blockers,
        cursors: Cursors,
        *,
        clock: Callable[[], datetime],
    ) -> None:
        self._store = store
        self._engine = engine
        self._control = control
        self._intake = intake
        self._prospects = prospects
        self._blockers = blockers
        self._cursors = cursors
        self._clock = clock

    # -- submitting

    async def plan(
        self,
        actor: Actor,
        text: str,
        *,
        group: str | None = None,
        dialect: str | None = None,
        hold: Hold | None = None,
        notify: Notify | None = None,
    ) -> Planned:
        """What would happen, without doing it."""
        ready = await self._intake.read(actor, text, group=group, dialect=dialect, hold=hold, notify=notify)
        verdict = await self._prospects.verdict(ready.job, actor.name)
        told = {missing_image(role.engine_image) for role in ready.job.roles}  # by the verdict
        warnings = tuple(warning for warning in ready.warnings if not warning.startswith(tuple(told)))
        return Planned(ready.job, await self._intake.render(ready.job), warnings, verdict)

    async def submit(
        self,
        actor: Actor,
        text: str,
        *,
        group: str | None = None,
        dialect: str | None = None,
        hold: Hold | None = None,
        notify: Notify | None = None,
        key: str | None = None,
        unique: bool = False,
    ) -> Submitted:
        """When this returns, the job is on disk and will be run. The same `key` again gives the same job.

        With `unique`, NameTaken when this user ever had a job of that name.
        """
        _check_key(key)
        # Said before anything else that is wrong; but the same key again has to find its job.
        early = unique and key is None
        ready = await self._intake.read(
            actor, text, group=group, dialect=dialect, hold=hold, notify=notify, unique=early
        )
        return await self._add(actor, ready, key=key, unique=unique)

    async def rerun(
        self,
        actor: Actor,
        ref: str,
        *,
        hold: Hold | None = None,
        notify: Notify | None = None,
        key: str | None = None,
    ) -> Submitted:
        """The same job again, as whoever asks; when it fails it is held as before, or by `hold`. Secrets are
        its owner's: the new one would run with what others lay in its way, such as their own folder of a dataset."""
        _check_key(key)
        old = await find_own_job(self._store, actor, ref)
        detail = await self._store.read(job_rows.get, old.id)
        snapshot = await self._store.read(job_rows.load_snapshot, old.id)  # with its secrets
        if snapshot.job.secrets and not actor.admin:
            await self._need_owner(actor, old)
        ready = await self._intake.again(actor, snapshot.job, detail.source, hold, notify)
        return await self._add(actor, ready, key=key, rerun_of=old.id)

    async def _need_owner(self, actor: Actor, old: JobSummary) -> None:
        """A name may be given to somebody else once its user is gone."""
        hint = msg("`holdfast clone {id}` gives its file: fill in your own, and submit that.", id=old.id)
        if actor.name != old.user:
            raise Forbidden(
                msg("{name} has secrets of {user}, so only {user} can rerun it", name=old.name, user=old.user),
                hint=hint,
            )
        user = await self._store.read(people.get_user, actor.name)
        if user is None or user.created_at > old.submitted_at:
            raise Forbidden(
                msg("{name} has secrets of another {user}, who was removed since", name=old.name, user=old.user),
                hint=hint,
            )

    async def _add(
        self, actor: Actor, ready: Ready, *, key: str | None, rerun_of: str | None = None, unique: bool = False
    ) -> Submitted:
        await self._intake.prepare(actor, ready)
        never = await self._prospects.never(ready.job, actor.name)
        warnings = (*ready.warnings, *(msg("it can never run here: {reason}", reason=reason) for reason in never))
        now = self._clock()
        message = (
            msg("Submitted by {name}", name=actor.name)
            if rerun_of is None
            else msg("Rerun of {rerun_of} by {name}", rerun_of=rerun_of, name=actor.name)
        )
        new = job_rows.NewJob(
            job=ready.job,
            user=actor.name,
            source=ready.source,
            submitted_at=now,
            event=NewEvent(
                kind="submitted", message=message, at=now, actor=actor.name, attempt=0, state=JobState.PENDING
            ),
            warnings=warning_events(warnings, now),
            idempotency_key=key,
            rerun_of=rerun_of,
            unique_name=unique,
        )
        # Shielded: once it may be on disk, the controller has to hear of it, also if the client is gone.
        inserted = await asyncio.shield(self._insert(new))
        if not inserted.created and inserted.summary.group != ready.job.group:
            raise Conflict(
                msg("This idempotency key was used before, for a job in group {group}", group=inserted.summary.group),
                field="idempotency_key",
            )
        return Submitted(inserted.summary, warnings, inserted.created)

    async def _insert(self, new: job_rows.NewJob) -> job_rows.Inserted:
        self._control.prepare_start()
        try:
            inserted = await self._store.write(job_rows.insert_job, new=new)
        except NameInUse:
            raise name_taken(new.job.name) from None
        if inserted.created:
            summary = inserted.summary
            self._control.added(
                JobSnapshot(id=summary.id, job=new.job, user=new.user, submitted_at=summary.submitted_at)
            )
        return inserted

    # -- looking

    async def list(
        self, actor: Actor, filter: JobFilter, *, limit: int = 50, cursor: str | None = None
    ) -> Page[JobSummary]:
        """Newest first; within the groups one may see."""
        if not 1 <= limit <= MAX_LISTED:
            raise UserError(msg("limit is between 1 and {most_listed}", most_listed=MAX_LISTED), field="limit")
        narrowed = _narrowed(actor, filter)
        if narrowed.groups == ():
            return Page((), None)
        at = None if cursor is None else str(self._cursors.open(cursor))
        page = await self._store.read(job_rows.list_page, narrowed, limit, at)
        told = with_reasons(page.items, self._control)
        following = None if page.next is None else self._cursors.seal(int(page.next))
        return Page(tuple(with_hold(job, self._control) for job in told), following)

    async def numbered(self, actor: Actor, query: NumberedQuery, *, count: bool) -> NumberedPage:
        """A page by its number, within the groups one may see. `count`: also how many fit in all."""
        return await self._store.read(job_rows.numbered_page, _seen_by(actor, query), count=count)

    async def numbered_details(
        self, actor: Actor, query: NumberedQuery, *, count: bool
    ) -> tuple[tuple[job_rows.JobDetail, ...], int | None]:
        """The same with all that is on record of each job; for short pages."""
        return await self._store.read(_details, _seen_by(actor, query), count)

    async def named(self, actor: Actor, user: str, name: str) -> JobSummary:
        """The newest job of this user with exactly this name."""
        groups = readable_groups(actor)
        found = None
        if max(len(user), len(name)) <= MAX_REF_LENGTH and groups != ():
            found = await self._store.read(job_rows.newest_named, user, name, groups)
        if found is None:
            raise NotFound(msg("There is no job {name} of {user}", name=name[:100], user=user[:100]))
        return found

    async def find(self, actor: Actor, ref: str) -> JobSummary:
        """By id, a part of it, or name; NotFound for one that the actor may not see."""
        return await find_job(self._store, actor, ref)

    async def get(self, actor: Actor, ref: str) -> Detail:
        found = await find_job(self._store, actor, ref)
        record, kept = await self._store.read(_with_tasks, found.id)
        return Detail(
            record=replace(record, summary=with_hold(record.summary, self._control)),
            tasks=_current_tasks(record, kept),
            waiting=await self._blockers.reasons(record),
            time_limit=self._control.time_limit(record.job),
            isolation=self._engine.health().isolation,
        )

    async def record(self, actor: Actor, ref: str) -> job_rows.JobDetail:
        """The job without its tasks, of which there may be many."""
        found = await find_job(self._store, actor, ref)
        return await self._store.read(job_rows.get, found.id)

    def time_limit(self, job: Job) -> timedelta | None:
        """In force for it: its own, its group's or the admin's; None: no limit."""
        return self._control.time_limit(job)

    def waiting(self, record: job_rows.JobDetail) -> tuple[str, ...] | None:
        """Why it waits; None when it does not."""
        pending = record.summary.state is JobState.PENDING
        return self._control.waiting(record.summary.id) if pending else None

    async def source(self, actor: Actor, ref: str) -> str:
        """As it was submitted, secrets masked."""
        return (await self.record(actor, ref)).source

    async def yaml(self, actor: Actor, ref: str) -> str:
        """As a file to change and submit again, secrets masked: OpenPAI's for its jobs, ours for all others."""
        return await self._intake.clone((await self.record(actor, ref)).job)

    async def events(self, actor: Actor, ref: str, *, after: int = 0, limit: int = 200) -> Sequence[Event]:
        found = await find_job(self._store, actor, ref)
        return await self._store.read(event_rows.list_events, found.id, after, min(limit, MAX_EVENTS))

    async def tasks(self, actor: Actor, ref: str) -> tuple[TaskRecord, ...]:
        """The newest try of each task of the current attempt."""
        found = await find_job(self._store, actor, ref)
        return _current_tasks(*await self._store.read(_with_tasks, found.id))

    async def attempts(self, actor: Actor, ref: str) -> tuple[AttemptTasks, ...]:
        """Every try of every task, newest attempt first."""
        found = await find_job(self._store, actor, ref)
        by_attempt: dict[int, list[TaskRecord]] = {}
        for record in await self._store.read(job_rows.tasks, found.id):
            by_attempt.setdefault(record.attempt, []).append(record)
        return tuple(AttemptTasks(n, tuple(by_attempt[n])) for n in sorted(by_attempt, reverse=True))

    async def tries(self, actor: Actor, ref: str, attempt: int) -> tuple[TaskRecord, ...]:
        """Every try of every task in one attempt."""
        found = await find_job(self._store, actor, ref)
        return tuple(await self._store.read(job_rows.tasks, found.id, attempt))

    async def past_attempts(self, actor: Actor, ref: str) -> tuple[JobAttempt, ...]:
        """Tries of the whole job before the newest one, oldest first."""
        found = await find_job(self._store, actor, ref)
        return tuple(await self._store.read(job_rows.past_attempts, found.id))

    async def wait(self, actor: Actor, ref: str, timeout: float, *, held: bool = False) -> JobSummary:
        """The job as soon as it is final (with `held`, also once it is held), or as it is after `timeout` seconds."""
        return await self.wait_for(await self.find(actor, ref), timeout, held=held)

    async def wait_for(self, job: JobSummary, timeout: float, *, held: bool = False) -> JobSummary:
        """The same for a job that was found before. Whether the actor may still see it is for the caller to check."""
        deadline = time.monotonic() + timeout
        while self._goes_on(job.id, held) and (left := deadline - time.monotonic()) > 0:
            await self._control.changed(job.id, left)
        return await self._summary(job.id)

    # -- acting

    async def stop(self, actor: Actor, ref: str) -> tuple[JobSummary, bool]:
        """The job after the wish is on disk, and whether there was anything to stop."""
        found = await find_own_job(self._store, actor, ref)
        stopped = await self._control.stop(found.id, actor.name)
        return await self._summary(found.id), stopped

    async def stop_many(self, actor: Actor, refs: Sequence[str]) -> StopReport:
        """Each on its own: one that cannot be stopped does not keep the others running."""
        failed: list[tuple[str, UserError]] = []
        ids: dict[str, None] = {}
        for ref in refs:
            try:
                ids[(await find_own_job(self._store, actor, ref)).id] = None
            except UserError as error:
                failed.append((ref, error))
        await asyncio.gather(*(self._control.stop(id, actor.name) for id in ids))  # saved in one write
        return StopReport(tuple(ids), tuple(failed))

    async def tag(self, actor: Actor, ref: str, tag: str) -> JobSummary:
        """The job with the tag. It may have had it before."""
        _check_tag(tag)
        found = await find_own_job(self._store, actor, ref)
        event = self._tag_event("tagged", msg("Tagged {tag}", tag=tag), actor)
        await self._store.write(job_rows.add_tag, found.id, tag, event=event)
        self._control.changes.tell(found.id, found.group, found.user)
        return await self._summary(found.id)

    async def untag(self, actor: Actor, ref: str, tag: str) -> JobSummary:
        """The job without the tag; NoTag when it had none such."""
        found = await find_own_job(self._store, actor, ref)
        event = self._tag_event("untagged", msg("Tag {tag} removed", tag=tag[:MAX_TAG_LENGTH]), actor)
        if not await self._store.write(job_rows.remove_tag, found.id, tag, event=event):
            raise NoTag(msg("{id} has no tag {tag}", id=found.id, tag=tag[:100]))
        self._control.changes.tell(found.id, found.group, found.user)
        return await self._summary(found.id)

    def _tag_event(self, kind: str, message: str, actor: Actor) -> NewEvent:
        return NewEvent(
            kind=kind,
            message=msg("{message} by {name}", message=message, name=actor.name),
            at=self._clock(),
            actor=actor.name,
        )

    # -- small things

    def _goes_on(self, job_id: str, held: bool) -> bool:
        """Whether a state that is waited for is yet to come. `held`: being held is one, until the hold is released."""
        live = self._control.active(job_id)
        if live is None:
            return False
        is_held = any(task.state is TaskState.HELD and task.stop is None for task in live.tasks)
        return not (held and live.state is JobState.HELD and is_held)

    async def _summary(self, job_id: str) -> JobSummary:
        found = await self._store.read(job_rows.find, job_id)
        if found is None:
            raise NotFound(msg("There is no job {job_id}", job_id=job_id))
        return with_hold(found, self._control)


def _seen_by(actor: Actor, query: NumberedQuery) -> NumberedQuery:
    groups = readable_groups(actor)
    if groups is None:
        return query
    allowed = groups if query.groups is None else tuple(set(groups).intersection(query.groups))
    return replace(query, groups=allowed)


def _details(conn: Connection, query: NumberedQuery, count: bool) -> tuple[tuple[job_rows.JobDetail, ...], int | None]:
    page = job_rows.numbered_page(conn, query, count=count)
    found: list[job_rows.JobDetail] = []
    size = 0
    for summary in page.items:
        if len(found) >= FEW_DETAILS and size > MAX_DETAIL_BYTES:
            hint = msg("Ask for fewer rows at once.")
            raise TooLarge(
                msg("These {items} jobs have too much text for one answer", items=len(page.items)), hint=hint
            )
        found.append(job_rows.get(conn, summary.id))
        size += len(found[-1].source)
    return tuple(found), page.total


def _with_tasks(conn: Connection, job_id: str) -> tuple[job_rows.JobDetail, list[TaskRecord]]:
    """Read together, so that a job and its tasks tell the same. Of its attempts, the newest."""
    job = job_rows.get(conn, job_id)
    return job, job_rows.tasks(conn, job_id, job.summary.attempt)


def _current_tasks(job: job_rows.JobDetail, kept: Sequence[TaskRecord]) -> tuple[TaskRecord, ...]:
    summary = job.summary
    newest = {
        (record.task.role, record.task.index): record for record in kept
    }  # tries come in order, so the last one stays
    missing = () if summary.state.final else fresh_tasks(job.job)
    for task in missing:
        newest.setdefault((task.role, task.index), _not_begun(summary, task))
    order = {role.name: n for n, role in enumerate(job.job.roles)}
    return tuple(sorted(newest.values(), key=lambda r: (order.get(r.task.role, 0), r.task.index)))


def _narrowed(actor: Actor, filter: JobFilter) -> JobFilter:
    groups = readable_groups(actor)
    if groups is None:
        return filter
    for group in filter.groups or ():
        if group not in groups:
            hint = nearest(group, groups, "holdfast group ls")
            raise NotFound(
                msg("There is no group {group}, or you are not in it", group=group[:100]), field="group", hint=hint
            )
    return replace(filter, groups=filter.groups if filter.groups is not None else groups)


def _not_begun(summary: JobSummary, task: TaskAttempt) -> TaskRecord:
    attempt_id = str(AttemptId(summary.id, summary.attempt, task.role, task.index, task.number))
    return TaskRecord(job_id=summary.id, attempt=summary.attempt, task=task, attempt_id=attempt_id)


def warning_events(warnings: Sequence[str], at: datetime) -> tuple[NewEvent, ...]:
    """Kept with the job, for whoever did not see the answer."""
    kept = [warning[:MAX_WARNING_LENGTH] for warning in warnings[:MAX_WARNINGS]]
    if len(warnings) > MAX_WARNINGS:
        kept[-1] = msg("and {x1} more warnings; `holdfast plan` tells them all", x1=len(warnings) - MAX_WARNINGS + 1)
    return tuple(NewEvent(kind="warning", message=message, at=at) for message in kept)


def _check_key(key: str | None) -> None:
    if key is not None and not (0 < len(key) <= MAX_KEY_LENGTH and key.isascii() and key.isprintable()):
        raise UserError(
            msg("An idempotency key has 1 to {longest_key} printable ASCII characters", longest_key=MAX_KEY_LENGTH),
            field="Idempotency-Key",
        )


def _check_tag(tag: str) -> None:
    """Clients write several tags with commas between them."""
    plain = "," not in tag and tag.isprintable() and bool(tag.strip())
    if not (plain and len(tag) <= MAX_TAG_LENGTH):
        raise UserError(
            msg("A tag has 1 to {longest_tag} printable characters and no comma", longest_tag=MAX_TAG_LENGTH),
            field="tag",
        )
