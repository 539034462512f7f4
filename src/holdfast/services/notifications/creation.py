"""Create notifications from saved events, each exactly once, also across server crashes.

Nothing is done while jobs are submitted, run and end. Saved events are read afterwards, and their notifications are
written in one transaction with the read position.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import datetime
from functools import cache, partial
from typing import Protocol

from sqlalchemy import Connection

from holdfast.core.attempt import JobSnapshot
from holdfast.core.errors import UserError
from holdfast.core.job import Job
from holdfast.core.notifications import (
    EVENTS_BY_KIND,
    Channel,
    NotificationEvent,
    NotifySpec,
    StoredRecipient,
    find_address_problem,
)
from holdfast.core.records import User
from holdfast.core.verdicts import Fault, Insight
from holdfast.jobspec import fill_secrets
from holdfast.store import people
from holdfast.store import schedules as schedule_rows
from holdfast.store.database import Store
from holdfast.store.jobs import records as job_rows
from holdfast.store.notifications import creation as making_rows
from holdfast.store.notifications import event_scan as happening_rows
from holdfast.store.notifications import recipients as recipient_rows
from holdfast.store.notifications.event_scan import EventBatch, MissedRun, NotifiableEvent
from holdfast.store.notifications.records import NewNotification

from .mailer import Mailer
from .texts import render_job_event, render_missed_run

log = logging.getLogger(__name__)

BATCH_SIZE = 100
VERDICT_TIMEOUT = 5.0  # to wait for the diagnosis of a failed job
NotificationTarget = tuple[Channel, str]


class SupportsInsight(Protocol):
    async def load_insight(self, record: job_rows.JobDetail) -> Insight: ...


class NotificationCreator:
    def __init__(
        self,
        store: Store,
        mailing: Mailer,
        insights: SupportsInsight,
        *,
        base: str,
        per_hour: int,
        clock: Callable[[], datetime],
    ) -> None:
        """`base`: the portal's address, or empty."""
        self._store = store
        self._mailer = mailing
        self._insights = insights
        self._base_url = base
        self._per_hour = per_hour
        self._clock = clock
        self._users_with_recipients: set[str] = set()  # that have recipients
        self._diagnosis_tasks: set[asyncio.Task[str | None]] = set()
        self._logged_recipients: set[str] = set()  # recipients that were already logged

    def is_relevant(self, snapshot: JobSnapshot) -> bool:
        """Return whether events of this job may need notifications."""
        return bool(snapshot.job.notify) or snapshot.user in self._users_with_recipients

    async def initialize(self) -> None:
        """Initialize at startup. Events before the very first start create no notifications."""
        await self._store.write(happening_rows.start_event_scan)
        await self.reload_users()

    async def reload_users(self) -> None:
        """Reload the users with recipients after a change."""
        self._users_with_recipients = await self._store.read(recipient_rows.load_users_with_recipients)

    async def create_notifications(self) -> int:
        """Create notifications for all new events and return how many."""
        created = 0
        while True:
            found = await self._store.read(happening_rows.load_event_batch, EVENTS_BY_KIND, BATCH_SIZE)
            if found.after == found.before:
                return created
            notifications = await self._build_notifications(found)
            count = await self._store.write(
                making_rows.create_notifications, found.before, found.after, notifications, self._per_hour
            )
            created += count or 0
            if count is not None and not found.more:
                return created

    async def _build_notifications(self, found: EventBatch) -> list[NewNotification]:
        of_jobs, of_schedules, unreadable = await self._store.read(_find_targets, found, self._mailer.is_ready)
        self._log_unreadable_recipients(unreadable)
        verdicts = await self._load_verdicts(each for each, targets in of_jobs if targets)
        created: list[NewNotification] = []
        now = self._clock()
        for each, targets in of_jobs:
            if targets:
                text = render_job_event(each, verdict=verdicts.get(each.job_id), base=self._base_url)
                occurrence = f"{each.job_id} {each.seq}"
                created += [text.to_notification(each.user, *to, at=now, occurrence=occurrence) for to in targets]
        for missed, targets in of_schedules:
            text = render_missed_run(missed, base=self._base_url)
            occurrence = f"{missed.run.schedule_id} {missed.run.due_at.isoformat()}"
            created += [text.to_notification(missed.user, *to, at=now, occurrence=occurrence) for to in targets]
        return created

    def _log_unreadable_recipients(self, unreadable: set[str]) -> None:
        """Log each unreadable recipient once."""
        for id in unreadable - self._logged_recipients:
            log.warning("the address of a recipient cannot be read", extra={"event": "notifications", "recipient": id})
        self._logged_recipients |= unreadable

    async def _load_verdicts(self, occurrences: Iterable[NotifiableEvent]) -> dict[str, str]:
        """Return job -> verdict of failed jobs, without those that exceed the timeout."""
        failures = (NotificationEvent.FAILED, NotificationEvent.HELD)
        job_ids = {each.job_id for each in occurrences if EVENTS_BY_KIND[each.kind] in failures}
        analyses = {id: asyncio.ensure_future(self._load_verdict(id)) for id in job_ids}
        self._diagnosis_tasks.update(analyses.values())
        if analyses:
            await asyncio.wait(analyses.values(), timeout=VERDICT_TIMEOUT)
        self._diagnosis_tasks = {task for task in self._diagnosis_tasks if not task.done()}
        return {id: text for id, task in analyses.items() if (text := _get_verdict(task))}

    async def _load_verdict(self, job_id: str) -> str | None:
        insight = await self._insights.load_insight(await self._store.read(job_rows.load_job_detail, job_id))
        found = insight.diagnosis
        return None if found is None or found.fault is Fault.UNKNOWN else found.title


def _get_verdict(task: asyncio.Task[str | None]) -> str | None:
    if not task.done() or task.cancelled():
        return None
    if task.exception() is not None:
        log.warning("could not diagnose a failed job", extra={"event": "notifications", "error": str(task.exception())})
        return None
    return task.result()


# -- recipients, inside a read transaction


@dataclass(frozen=True, slots=True)
class _UserRecipients:
    user: User
    recipients: list[StoredRecipient]  # that can be read
    unreadable: set[str]
    mail: list[NotificationTarget]  # the user's own address, if mail to it is possible

    @property
    def all_targets(self) -> list[NotificationTarget]:
        return [(each.recipient.way, each.recipient.address) for each in self.recipients]


def _find_targets(
    conn: Connection, found: EventBatch, mails: bool
) -> tuple[
    list[tuple[NotifiableEvent, list[NotificationTarget]]], list[tuple[MissedRun, list[NotificationTarget]]], set[str]
]:
    """Return the targets of each event and run, and the recipients that cannot be read."""
    person = cache(partial(_load_user_recipients, conn, mails))
    of_jobs = []
    for each in found.events:
        job = _load_job(conn, each) if each.asks else None
        of_jobs.append((each, _choose_targets(person(each.user), EVENTS_BY_KIND[each.kind], each.at, job)))
    of_schedules = []
    for missed in found.runs:
        skipped, job = NotificationEvent.SCHEDULE_SKIPPED, _load_schedule_job(conn, missed)
        of_schedules.append((missed, _choose_targets(person(missed.user), skipped, missed.run.at, job)))
    names = {each.user for each in found.events} | {each.user for each in found.runs}
    unreadable = {id for name in names if (known := person(name)) is not None for id in known.unreadable}
    return of_jobs, of_schedules, unreadable


def _load_user_recipients(conn: Connection, mails: bool, name: str) -> _UserRecipients | None:
    user = people.get_user(conn, name)
    if user is None or user.disabled:
        return None
    usable = mails and find_address_problem(Channel.MAIL, user.email) is None
    known = recipient_rows.list_recipients(conn, name)
    return _UserRecipients(
        user,
        recipients=[each for each in known if each.readable],
        unreadable={each.id for each in known if not each.readable},
        mail=[(Channel.MAIL, user.email)] if usable else [],
    )


def _load_job(conn: Connection, occurrence: NotifiableEvent) -> Job | None:
    try:
        return job_rows.load_job(conn, occurrence.job_id)
    except UserError as error:  # its secrets cannot be read
        extra = {"event": "notifications", "job": occurrence.job_id, "error": str(error)}
        log.warning("could not read the notification settings of a job", extra=extra)
        return None


def _load_schedule_job(conn: Connection, missed: MissedRun) -> Job | None:
    try:
        stored = schedule_rows.load_schedule(conn, missed.run.schedule_id)
    except UserError as error:  # its secrets cannot be read
        extra = {"event": "notifications", "schedule": missed.run.schedule_id, "error": str(error)}
        log.warning("could not read the notification settings of a schedule", extra=extra)
        return None
    return None if stored is None else stored.job


def _choose_targets(
    person: _UserRecipients | None, event: NotificationEvent, at: datetime, job: Job | None
) -> list[NotificationTarget]:
    """Return the targets for an event, each address once."""
    if person is None:
        return []
    found: list[NotificationTarget] = [
        (each.recipient.way, each.recipient.address)
        for each in person.recipients
        if event in each.recipient.events and each.created_at <= at
    ]
    if job is not None:
        for notify in job.notify:
            if event in notify.events:
                found += _list_job_targets(notify, job, person)
    return list(dict.fromkeys(found))


def _list_job_targets(notify: NotifySpec, job: Job, person: _UserRecipients) -> list[NotificationTarget]:
    if notify.way is None:
        return person.all_targets or person.mail
    if not notify.address:
        return person.mail
    return [(notify.way, fill_secrets(notify.address, job.secrets))]
