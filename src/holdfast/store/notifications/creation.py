"""Making notices, within what one user is told of in an hour.

What happens is counted, not the notices of it: one event that three recipients are told of counts once. Above the
limit events are left out for a while; every recipient that misses some is told so at once, and how many afterwards.
"""

from __future__ import annotations

import json
import secrets
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from sqlalchemy import Connection, func, select, update

from holdfast.core.messages import msg
from holdfast.core.notifications import URGENT, NotificationEvent, Way

from ..rows import instant, micros, storable, to_json
from ..tables import notices
from .occurrences import Mark, move_mark
from .records import NewNotification, address_of, insert_notification

SPAN = timedelta(hours=1)
URGENT_TIMES = 10  # as many of those that somebody has to act upon
MAX_WARNED = 100  # addresses of one user that are told of what they miss

Target = tuple[Way, str]


def make_notifications(
    conn: Connection, before: Mark, after: Mark, made: Sequence[NewNotification], most_per_hour: int
) -> int | None:
    """How many there are, with how far was looked; None, and nothing is done, when somebody else did it before."""
    if not move_mark(conn, before, after):
        return None
    hours: dict[str, _Hour] = {}
    for notification in made:
        if notification.user not in hours:
            hours[notification.user] = _Hour(conn, notification.user, notification.created_at, most_per_hour)
        hours[notification.user].take(notification)
    return sum(hour.made for hour in hours.values())


def count_recent(conn: Connection, user: str, now: datetime) -> int:
    """What a user was told of in the last hour, but for what somebody has to act upon."""
    return len(_moments(conn, user, now)[False])


@dataclass(slots=True)
class _Summary:
    """A notice that waits until events are told again, and says then how many were not."""

    seq: int
    notification: NewNotification
    count: int


class _Hour:
    """The last one of a user."""

    def __init__(self, conn: Connection, user: str, now: datetime, most: int) -> None:
        self._conn = conn
        self._bounds = {False: most, True: most * URGENT_TIMES}
        self._moments = _moments(conn, user, now)
        self._told: dict[str, bool] = {}  # what happened -> whether it is told
        self._until, self._summaries = _pause(conn, user, now)
        self.made = 0

    def take(self, notification: NewNotification) -> None:
        if notification.happening not in self._told:
            self._told[notification.happening] = self._has_room(notification)
        if self._told[notification.happening]:
            self._insert(notification)
        else:
            self._leave_out(notification)

    def _has_room(self, notification: NewNotification) -> bool:
        urgent, now = notification.event in URGENT, notification.created_at
        moments = self._moments[urgent]
        if len(moments) < self._bounds[urgent] and (urgent or self._until is None or self._until <= now):
            moments.append(now)
            return True
        if self._until is None or self._until <= now:
            # When half of them are an hour old: so there is one pause for many events, not one for each.
            self._until = moments[(len(moments) - 1) // 2] + SPAN
        return False

    def _leave_out(self, notification: NewNotification) -> None:
        target = (notification.way, notification.address)
        known = self._summaries.get(target)
        assert self._until is not None
        if known is not None:
            known.count += 1
            self._count(known)
        elif len(self._summaries) < MAX_WARNED:
            self._insert(_warning(notification, self._until, self._bounds[notification.event in URGENT]))
            summary = _summary(notification, self._until, 1)
            self._summaries[target] = _Summary(self._insert(summary, self._until), summary, 1)

    def _count(self, known: _Summary) -> None:
        assert self._until is not None
        counted = _summary(known.notification, self._until, known.count)
        values = {"subject": storable(counted.subject), "body_json": to_json(dict(counted.body))}
        self._conn.execute(update(notices).where(notices.c.seq == known.seq).values(values))

    def _insert(self, notification: NewNotification, due_at: datetime | None = None) -> int:
        self.made += 1
        return insert_notification(self._conn, notification, due_at=due_at)


def _moments(conn: Connection, user: str, now: datetime) -> dict[bool, list[datetime]]:
    """When what a user was told of was noticed, oldest first; and the same of what is urgent."""
    first = func.min(notices.c.created_at).label("first")
    recent = select(notices.c.happening, notices.c.event, first).where(
        notices.c.user_name == storable(user),
        notices.c.created_at > micros(now - SPAN),
        notices.c.event != NotificationEvent.LEFT_OUT.value,
    )
    found: dict[bool, list[datetime]] = {False: [], True: []}
    for row in conn.execute(recent.group_by(notices.c.happening, notices.c.event).order_by(first)):
        found[NotificationEvent(row.event) in URGENT].append(instant(row.first))
    return found


def _pause(conn: Connection, user: str, now: datetime) -> tuple[datetime | None, dict[Target, _Summary]]:
    """Until when events are left out, and who will be told how many were; None: they are told."""
    told = select(notices).where(
        notices.c.user_name == storable(user),
        notices.c.created_at > micros(now - SPAN),
        notices.c.event == NotificationEvent.LEFT_OUT.value,
    )
    until: datetime | None = None
    found: dict[Target, _Summary] = {}
    for row in conn.execute(told).all():
        body = json.loads(row.body_json)
        ends = datetime.fromisoformat(body["left_out"]["until"])
        if ends <= now:
            continue
        until = max(ends, until or ends)
        address = address_of(conn, row)
        if body["left_out"]["count"] is not None and address is not None:
            notification = NewNotification(
                id=row.id,
                user=row.user_name,
                way=Way(row.way),
                address=address,
                event=NotificationEvent.LEFT_OUT,
                happening=row.happening,
                job_id=None,
                subject=row.subject,
                body=body,
                created_at=instant(row.created_at),
            )
            found[notification.way, address] = _Summary(row.seq, notification, body["left_out"]["count"])
    return until, found


# -- what is said


def _warning(notification: NewNotification, until: datetime, most: int) -> NewNotification:
    subject = msg(
        "More than {most} events in an hour: others are left out here until {until}", most=most, until=_show(until)
    )
    but = (
        ""
        if notification.event in URGENT
        else msg(" Held tasks and debuggers that wait for you are told of all the same.")
    )
    text = msg("{subject}.{but} Afterwards you are told how many were left out.", subject=subject, but=but)
    return _of_left_out(notification, subject, text, until, None)


def _summary(notification: NewNotification, until: datetime, count: int) -> NewNotification:
    what = msg("1 event was") if count == 1 else msg("{count} events were", count=count)
    subject = msg(
        "{what} left out here from {created_at} until {until}",
        what=what,
        created_at=_show(notification.created_at),
        until=_show(until),
    )
    return _of_left_out(notification, subject, f"{subject}.\nNext: holdfast ls", until, count)


def _of_left_out(
    notification: NewNotification, subject: str, text: str, until: datetime, count: int | None
) -> NewNotification:
    id = f"notice-{secrets.token_hex(8)}" if notification.event is not NotificationEvent.LEFT_OUT else notification.id
    body = {
        **notification.body,
        "event": NotificationEvent.LEFT_OUT.value,
        "at": notification.created_at.isoformat(),
        "subject": subject,
        "text": text,
        "link": None,
        "command": "holdfast ls",
        "job": None,
        "schedule": None,
        "left_out": {"until": until.isoformat(), "count": count},
    }
    return replace(
        notification, id=id, event=NotificationEvent.LEFT_OUT, happening=id, subject=subject, job_id=None, body=body
    )


def _show(moment: datetime) -> str:
    return f"{moment:%Y-%m-%d %H:%M} UTC"
