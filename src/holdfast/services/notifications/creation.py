"""From what happened to the notifications that tell of it: each made once, whenever a server dies.

Nothing is done while jobs are submitted, run and end. Afterwards the events that were saved are read, and what comes
of them is written together with how far was read.
"""

from __future__ import annotations

import asyncio
import logging
import secrets
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import datetime
from functools import cache, partial
from typing import Protocol

from sqlalchemy import Connection

from holdfast.core.attempt import JobSnapshot
from holdfast.core.errors import UserError
from holdfast.core.job import Job
from holdfast.core.notifications import TOLD, KnownRecipient, NotificationEvent, Notify, Way, address_problem
from holdfast.core.records import User
from holdfast.core.verdicts import Fault, Insight
from holdfast.jobspec import fill_secrets
from holdfast.store import people
from holdfast.store import schedules as schedule_rows
from holdfast.store.database import Store
from holdfast.store.jobs import records as job_rows
from holdfast.store.notifications import creation as making_rows
from holdfast.store.notifications import occurrences as happening_rows
from holdfast.store.notifications import recipients as recipient_rows
from holdfast.store.notifications.occurrences import Happenings, MissedRun, Occurrence
from holdfast.store.notifications.records import NewNotification

from .mailing import Mailing
from .texts import Told, tell_of_job, tell_of_schedule

log = logging.getLogger(__name__)

BATCH = 100
VERDICT_SECONDS = 5.0  # that a notification waits for why a job failed
Target = tuple[Way, str]


class GivesInsight(Protocol):
    async def of(self, record: job_rows.JobDetail) -> Insight: ...


class Making:
    def __init__(
        self,
        store: Store,
        mailing: Mailing,
        insights: GivesInsight,
        *,
        base: str,
        per_hour: int,
        clock: Callable[[], datetime],
    ) -> None:
        """`base`: the portal's address, or empty."""
        self._store = store
        self._mailing = mailing
        self._insights = insights
        self._base = base
        self._per_hour = per_hour
        self._clock = clock
        self._users: set[str] = set()  # that have recipients
        self._asked: set[asyncio.Task[str | None]] = set()
        self._unreadable: set[str] = set()  # recipients that the log tells of

    def wants(self, snapshot: JobSnapshot) -> bool:
        """Whether anybody may want to be told of what happens to this job."""
        return bool(snapshot.job.notify) or snapshot.user in self._users

    async def begin(self) -> None:
        """At the start. What happened before the very first one is told to nobody."""
        await self._store.write(happening_rows.begin_noticing)
        await self.look_for_users()

    async def look_for_users(self) -> None:
        """After recipients changed."""
        self._users = await self._store.read(recipient_rows.users_with_recipients)

    async def make(self) -> int:
        """Notifications of all that happened since; how many."""
        made = 0
        while True:
            found = await self._store.read(happening_rows.happenings, TOLD, BATCH)
            if found.after == found.before:
                return made
            notifications = await self._notifications(found)
            count = await self._store.write(
                making_rows.make_notifications, found.before, found.after, notifications, self._per_hour
            )
            made += count or 0
            if count is not None and not found.more:
                return made

    async def _notifications(self, found: Happenings) -> list[NewNotification]:
        of_jobs, of_schedules, unreadable = await self._store.read(_targets, found, self._mailing.ready)
        self._log(unreadable)
        verdicts = await self._verdicts(each for each, to in of_jobs if to)
        made: list[NewNotification] = []
        for each, to in of_jobs:
            if to:
                told = tell_of_job(each, verdict=verdicts.get(each.job_id), base=self._base)
                made += [self._notification(told, each.user, f"{each.job_id} {each.seq}", target) for target in to]
        for missed, to in of_schedules:
            told = tell_of_schedule(missed, base=self._base)
            happening = f"{missed.run.schedule_id} {missed.run.due_at.isoformat()}"
            made += [self._notification(told, missed.user, happening, target) for target in to]
        return made

    def _log(self, unreadable: set[str]) -> None:
        """Once of each."""
        for id in unreadable - self._unreadable:
            log.warning("the address of a recipient cannot be read", extra={"event": "notifications", "recipient": id})
        self._unreadable |= unreadable

    def _notification(self, told: Told, user: str, happening: str, target: Target) -> NewNotification:
        way, address = target
        return NewNotification(
            id=notification_id(),
            user=user,
            way=way,
            address=address,
            event=told.event,
            happening=happening,
            job_id=told.job_id,
            subject=told.subject,
            body=told.body,
            created_at=self._clock(),
        )

    async def _verdicts(self, happened: Iterable[Occurrence]) -> dict[str, str]:
        """Of those that failed, as far as they are known soon."""
        asked = {}
        for each in happened:
            if TOLD[each.kind] in (NotificationEvent.FAILED, NotificationEvent.HELD) and each.job_id not in asked:
                asked[each.job_id] = asyncio.ensure_future(self._verdict(each.job_id))
        self._asked.update(asked.values())
        if asked:
            await asyncio.wait(asked.values(), timeout=VERDICT_SECONDS)
        self._asked = {task for task in self._asked if not task.done()}
        return {id: text for id, task in asked.items() if (text := _result(task))}

    async def _verdict(self, job_id: str) -> str | None:
        insight = await self._insights.of(await self._store.read(job_rows.get, job_id))
        found = insight.diagnosis
        return None if found is None or found.fault is Fault.UNKNOWN else found.title


def notification_id() -> str:
    return f"notification-{secrets.token_hex(8)}"


def _result(task: asyncio.Task[str | None]) -> str | None:
    if not task.done() or task.cancelled():
        return None
    if task.exception() is not None:
        log.warning(
            "could not find out why a job failed", extra={"event": "notifications", "error": str(task.exception())}
        )
        return None
    return task.result()


# -- who is told, within one read


@dataclass(frozen=True, slots=True)
class _Person:
    user: User
    recipients: list[KnownRecipient]  # that can be read
    unreadable: set[str]
    mail: list[Target]  # their own address, where mails can be sent there

    @property
    def everywhere(self) -> list[Target]:
        return [(each.recipient.way, each.recipient.address) for each in self.recipients]


def _targets(
    conn: Connection, found: Happenings, mails: bool
) -> tuple[list[tuple[Occurrence, list[Target]]], list[tuple[MissedRun, list[Target]]], set[str]]:
    """And the recipients that cannot be read."""
    person = cache(partial(_person, conn, mails))
    of_jobs = [
        (each, _chosen(person(each.user), TOLD[each.kind], each.at, _job(conn, each) if each.asks else None))
        for each in found.events
    ]
    of_schedules = [
        (each, _chosen(person(each.user), NotificationEvent.SCHEDULE_SKIPPED, each.run.at, _template(conn, each)))
        for each in found.runs
    ]
    names = {each.user for each in found.events} | {each.user for each in found.runs}
    unreadable = {id for name in names if (known := person(name)) is not None for id in known.unreadable}
    return of_jobs, of_schedules, unreadable


def _person(conn: Connection, mails: bool, name: str) -> _Person | None:
    user = people.get_user(conn, name)
    if user is None or user.disabled:
        return None
    usable = mails and address_problem(Way.MAIL, user.email) is None
    known = recipient_rows.list_recipients(conn, name)
    return _Person(
        user,
        recipients=[each for each in known if each.readable],
        unreadable={each.id for each in known if not each.readable},
        mail=[(Way.MAIL, user.email)] if usable else [],
    )


def _job(conn: Connection, happening: Occurrence) -> Job | None:
    try:
        return job_rows.load_job(conn, happening.job_id)
    except UserError as error:  # its secrets cannot be read
        told = {"event": "notifications", "job": happening.job_id, "error": str(error)}
        log.warning("could not read whom a job wants to be told", extra=told)
        return None


def _template(conn: Connection, missed: MissedRun) -> Job | None:
    try:
        stored = schedule_rows.load_schedule(conn, missed.run.schedule_id)
    except UserError as error:  # the same
        told = {"event": "notifications", "schedule": missed.run.schedule_id, "error": str(error)}
        log.warning("could not read whom a schedule wants to be told", extra=told)
        return None
    return None if stored is None else stored.job


def _chosen(person: _Person | None, event: NotificationEvent, at: datetime, job: Job | None) -> list[Target]:
    """Each address once, however often it was chosen."""
    if person is None:
        return []
    found: list[Target] = [
        (each.recipient.way, each.recipient.address)
        for each in person.recipients
        if event in each.recipient.events and each.created_at <= at
    ]
    if job is not None:
        for notify in job.notify:
            if event in notify.events:
                found += _asked_for(notify, job, person)
    return list(dict.fromkeys(found))


def _asked_for(notify: Notify, job: Job, person: _Person) -> list[Target]:
    if notify.way is None:
        return person.everywhere or person.mail
    if not notify.address:
        return person.mail
    return [(notify.way, fill_secrets(notify.address, job.secrets))]
