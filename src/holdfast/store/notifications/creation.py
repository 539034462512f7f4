"""Creates notifications within the hourly limit of each user.

Events are counted, not notifications: an event with three recipients counts once. Above the limit, events are
suppressed for a while; each affected recipient gets a warning at once, and the number of events afterwards.
"""

from __future__ import annotations

import json
import secrets
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from sqlalchemy import Connection, func, select, update

from holdfast.core.messages import msg
from holdfast.core.notifications import URGENT_EVENTS, Channel, NotificationEvent

from ..mapping import record_from_row
from ..rows import from_micros, make_storable, to_json, to_micros
from ..tables import notifications
from .event_scan import ScanPosition, move_scan_position
from .records import NewNotification, insert_notification, unseal_notification_address

RATE_PERIOD = timedelta(hours=1)
URGENT_LIMIT_FACTOR = 10  # times the limit, for events that need an action
MAX_WARNED_ADDRESSES = 100  # addresses of one user that get a warning

RecipientKey = tuple[Channel, str]


def create_notifications(
    conn: Connection, before: ScanPosition, after: ScanPosition, made: Sequence[NewNotification], most_per_hour: int
) -> int | None:
    """Create notifications and move the scan position; return how many. None: another scan did it before."""
    if not move_scan_position(conn, before, after):
        return None
    hours: dict[str, _HourlyLimit] = {}
    for notification in made:
        if notification.user not in hours:
            hours[notification.user] = _HourlyLimit(conn, notification.user, notification.created_at, most_per_hour)
        hours[notification.user].insert_or_suppress(notification)
    return sum(hour.made for hour in hours.values())


def count_recent_events(conn: Connection, user: str, now: datetime) -> int:
    """Count the events that a user was notified of in the last hour, without urgent ones."""
    return len(_load_event_times(conn, user, now)[False])


@dataclass(slots=True)
class _SuppressionSummary:
    """A notification that is sent after a suppression, with the number of suppressed events."""

    seq: int
    notification: NewNotification
    count: int


class _HourlyLimit:
    """The hourly limit of a user."""

    def __init__(self, conn: Connection, user: str, now: datetime, most: int) -> None:
        self._conn = conn
        self._limits = {False: most, True: most * URGENT_LIMIT_FACTOR}
        self._event_times = _load_event_times(conn, user, now)
        self._decisions: dict[str, bool] = {}  # event -> whether its notifications are sent
        self._suppressed_until, self._summaries = _load_suppression(conn, user, now)
        self.made = 0

    def insert_or_suppress(self, notification: NewNotification) -> None:
        if notification.happening not in self._decisions:
            self._decisions[notification.happening] = self._reserve_event(notification)
        if self._decisions[notification.happening]:
            self._insert_notification(notification)
        else:
            self._suppress_notification(notification)

    def _reserve_event(self, notification: NewNotification) -> bool:
        urgent, now = notification.event in URGENT_EVENTS, notification.created_at
        moments = self._event_times[urgent]
        if len(moments) < self._limits[urgent] and (
            urgent or self._suppressed_until is None or self._suppressed_until <= now
        ):
            moments.append(now)
            return True
        if self._suppressed_until is None or self._suppressed_until <= now:
            # When half of them are an hour old: so there is one suppression for many events, not one for each.
            self._suppressed_until = moments[(len(moments) - 1) // 2] + RATE_PERIOD
        return False

    def _suppress_notification(self, notification: NewNotification) -> None:
        target = (notification.way, notification.address)
        known = self._summaries.get(target)
        assert self._suppressed_until is not None
        if known is not None:
            known.count += 1
            self._update_summary_count(known)
        elif len(self._summaries) < MAX_WARNED_ADDRESSES:
            self._insert_notification(
                _build_warning(notification, self._suppressed_until, self._limits[notification.event in URGENT_EVENTS])
            )
            summary = _build_summary(notification, self._suppressed_until, 1)
            self._summaries[target] = _SuppressionSummary(
                self._insert_notification(summary, self._suppressed_until), summary, 1
            )

    def _update_summary_count(self, known: _SuppressionSummary) -> None:
        assert self._suppressed_until is not None
        counted = _build_summary(known.notification, self._suppressed_until, known.count)
        values = {"subject": make_storable(counted.subject), "body_json": to_json(dict(counted.body))}
        self._conn.execute(update(notifications).where(notifications.c.seq == known.seq).values(values))

    def _insert_notification(self, notification: NewNotification, due_at: datetime | None = None) -> int:
        self.made += 1
        return insert_notification(self._conn, notification, due_at=due_at)


def _load_event_times(conn: Connection, user: str, now: datetime) -> dict[bool, list[datetime]]:
    """Load the times of recent events, oldest first, by whether they are urgent."""
    first = func.min(notifications.c.created_at).label("first")
    recent = select(notifications.c.happening, notifications.c.event, first).where(
        notifications.c.user_name == make_storable(user),
        notifications.c.created_at > to_micros(now - RATE_PERIOD),
        notifications.c.event != NotificationEvent.DROPPED.value,
    )
    found: dict[bool, list[datetime]] = {False: [], True: []}
    for row in conn.execute(recent.group_by(notifications.c.happening, notifications.c.event).order_by(first)):
        found[NotificationEvent(row.event) in URGENT_EVENTS].append(from_micros(row.first))
    return found


def _load_suppression(
    conn: Connection, user: str, now: datetime
) -> tuple[datetime | None, dict[RecipientKey, _SuppressionSummary]]:
    """Load the end of the current suppression, or None, and its summaries by recipient."""
    query = select(notifications).where(
        notifications.c.user_name == make_storable(user),
        notifications.c.created_at > to_micros(now - RATE_PERIOD),
        notifications.c.event == NotificationEvent.DROPPED.value,
    )
    until: datetime | None = None
    found: dict[RecipientKey, _SuppressionSummary] = {}
    for row in conn.execute(query).all():
        body = json.loads(row.body_json)
        ends = datetime.fromisoformat(body["left_out"]["until"])
        if ends <= now:
            continue
        until = max(ends, until or ends)
        address = unseal_notification_address(conn, row)
        if body["left_out"]["count"] is not None and address is not None:
            notification = record_from_row(NewNotification, row, address=address, job_id=None)
            found[notification.way, address] = _SuppressionSummary(row.seq, notification, body["left_out"]["count"])
    return until, found


# -- texts


def _build_warning(notification: NewNotification, until: datetime, most: int) -> NewNotification:
    subject = msg(
        "More than {limit} events in an hour: further notifications are suppressed until {until}",
        limit=most,
        until=_format_time(until),
    )
    but = (
        ""
        if notification.event in URGENT_EVENTS
        else msg(" You still get notifications about held tasks and waiting debuggers.")
    )
    text = msg("{subject}.{but} You then get a summary with the number of suppressed events.", subject=subject, but=but)
    return _build_suppression_notification(notification, subject, text, until, None)


def _build_summary(notification: NewNotification, until: datetime, count: int) -> NewNotification:
    what = msg("1 event was") if count == 1 else msg("{count} events were", count=count)
    subject = msg(
        "{what} suppressed from {created_at} to {until}",
        what=what,
        created_at=_format_time(notification.created_at),
        until=_format_time(until),
    )
    return _build_suppression_notification(notification, subject, f"{subject}.\nNext: holdfast ls", until, count)


def _build_suppression_notification(
    notification: NewNotification, subject: str, text: str, until: datetime, count: int | None
) -> NewNotification:
    id = f"notice-{secrets.token_hex(8)}" if notification.event is not NotificationEvent.DROPPED else notification.id
    body = {
        **notification.body,
        "event": NotificationEvent.DROPPED.value,
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
        notification, id=id, event=NotificationEvent.DROPPED, happening=id, subject=subject, job_id=None, body=body
    )


def _format_time(moment: datetime) -> str:
    return f"{moment:%Y-%m-%d %H:%M} UTC"
