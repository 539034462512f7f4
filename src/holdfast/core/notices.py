"""Telling people outside: which events, by which way."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum


class NoticeEvent(StrEnum):
    STARTED = "started"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    HELD = "held"
    DEBUGGER_WAITING = "debugger-waiting"
    HOLD_ENDING = "hold-ending"
    SCHEDULE_SKIPPED = "schedule-skipped"


class Way(StrEnum):
    WEBHOOK = "webhook"  # JSON
    SLACK = "slack"  # Slack's text, which many others take as well
    MAIL = "mail"


@dataclass(frozen=True, slots=True, kw_only=True)
class Recipient:
    """Where notices go, and which."""

    way: Way
    address: str  # an https address or a mail address; the former is a secret, shown in part
    events: frozenset[NoticeEvent]


class NoticeState(StrEnum):
    WAITING = "waiting"  # for its first or next try
    SENDING = "sending"
    SENT = "sent"
    UNCONFIRMED = "unconfirmed"  # it may have arrived, and is not sent again
    FAILED = "failed"  # given up


@dataclass(frozen=True, slots=True, kw_only=True)
class NoticeRecord:
    """One notice to one recipient."""

    id: str  # the receiver knows a repetition by it
    user: str
    way: Way
    address: str
    event: NoticeEvent
    job_id: str | None
    subject: str
    created_at: datetime
    state: NoticeState
    tries: int = 0
    next_at: datetime | None = None
    error: str = ""  # of the last try
