"""Telling people outside: which events, by which way, to which address."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from urllib.parse import SplitResult, urlsplit

from .messages import msg


class NotificationEvent(StrEnum):
    STARTED = "started"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    STOPPED = "stopped"
    RETRIED = "retried"
    HELD = "held"
    DEBUGGER_WAITING = "debugger-waiting"
    HOLD_ENDING = "hold-ending"
    SCHEDULE_SKIPPED = "schedule-skipped"
    TEST = "test"  # somebody tries a recipient out
    LEFT_OUT = "left-out"  # there were too many of the others


CHOICES = tuple(
    event for event in NotificationEvent if event not in (NotificationEvent.TEST, NotificationEvent.LEFT_OUT)
)
# What somebody is told of who does not say what.
USUAL = frozenset(CHOICES) - {NotificationEvent.STARTED, NotificationEvent.STOPPED, NotificationEvent.RETRIED}

# What somebody has to act upon: told though there was too much else.
URGENT = frozenset({NotificationEvent.HELD, NotificationEvent.DEBUGGER_WAITING, NotificationEvent.HOLD_ENDING})

# The events in the life of a job that are told outside, and as what.
TOLD = {
    "started": NotificationEvent.STARTED,
    "succeeded": NotificationEvent.SUCCEEDED,
    "failed": NotificationEvent.FAILED,
    "cancelled": NotificationEvent.STOPPED,
    "retry": NotificationEvent.RETRIED,
    "held": NotificationEvent.HELD,
    "debugger-waiting": NotificationEvent.DEBUGGER_WAITING,
    "hold-ending": NotificationEvent.HOLD_ENDING,
}


class Way(StrEnum):
    WEBHOOK = "webhook"  # JSON
    SLACK = "slack"  # Slack's text, which many others take as well
    MAIL = "mail"


@dataclass(frozen=True, slots=True, kw_only=True)
class Recipient:
    """Where notifications go, and which."""

    way: Way
    address: str  # an http address or a mail address; the former is a secret, shown in part
    events: frozenset[NotificationEvent]


@dataclass(frozen=True, slots=True, kw_only=True)
class Notify:
    """What a job asks for itself."""

    events: frozenset[NotificationEvent]
    way: Way | None = None  # None: to its owner's own recipients, whatever they chose
    address: str = ""  # with a way; empty with MAIL: its owner's own


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownRecipient:
    """One of a user's, as it is kept."""

    id: str
    user: str
    recipient: Recipient  # without an address where that cannot be read
    created_at: datetime

    @property
    def readable(self) -> bool:
        """Whether its address can be read: else nothing can be sent there."""
        return bool(self.recipient.address)


class NotificationState(StrEnum):
    WAITING = "waiting"  # for its first or next try
    SENDING = "sending"
    SENT = "sent"
    UNCONFIRMED = "unconfirmed"  # it may have arrived, and is not sent again
    FAILED = "failed"  # given up


@dataclass(frozen=True, slots=True, kw_only=True)
class NotificationRecord:
    """One notification to one recipient."""

    id: str  # the receiver knows a repetition by it
    seq: int  # the order they were made in
    user: str
    way: Way
    address: str  # empty where it cannot be read
    event: NotificationEvent
    job_id: str | None
    subject: str
    created_at: datetime
    state: NotificationState
    tries: int = 0
    next_at: datetime | None = None
    ended_at: datetime | None = None  # sent, or given up
    error: str = ""  # of the last try


# -- addresses

MAX_ADDRESS_LENGTH = 2000
MAX_MAIL_LENGTH = 254
_MAIL = re.compile(
    r"[A-Za-z0-9.!#$%&'*+/=?^_`{|}~-]{1,64}@[A-Za-z0-9](?:[A-Za-z0-9-]{0,61}[A-Za-z0-9])?"
    r"(?:\.[A-Za-z0-9](?:[A-Za-z0-9-]{0,61}[A-Za-z0-9])?)*"
)
_VISIBLE = re.compile(r"[!-~]+")  # ASCII without spaces; nothing that could break a header


def address_problem(way: Way, address: str) -> str | None:
    """What is wrong with an address, as the rest of a sentence; None: nothing."""
    return _mail_problem(address) if way is Way.MAIL else _http_problem(address)


def _mail_problem(address: str) -> str | None:
    local = address.partition("@")[0]
    dots = local.startswith(".") or local.endswith(".") or ".." in local
    if len(address) > MAX_MAIL_LENGTH or not _MAIL.fullmatch(address) or dots:
        return msg("is not a mail address such as ann@example.org")
    return None


def _http_problem(address: str) -> str | None:
    if len(address) > MAX_ADDRESS_LENGTH:
        return msg("is too long: at most {longest_address} characters", longest_address=MAX_ADDRESS_LENGTH)
    parts = _parts(address)
    if parts is None or not parts.hostname:
        return msg("is not an address such as https://hooks.example.org/a/b")
    if parts.scheme not in ("http", "https"):
        return msg("must begin with https:// or http://")
    if parts.username is not None or parts.password is not None:
        return msg("must not hold a user name and password before the host")
    return None


def _parts(address: str) -> SplitResult | None:
    if not _VISIBLE.fullmatch(address):
        return None
    try:
        parts = urlsplit(address)
        _ = parts.port  # a wrong one is told of only when it is looked at
    except ValueError:
        return None
    return parts


def shown_address(way: Way, address: str) -> str:
    """As much as tells recipients apart: whoever knows the whole of a webhook's may write there."""
    if way is Way.MAIL:
        return address or "…"
    parts = _parts(address)
    if parts is None:
        return "…"
    tail = address[-4:] if len(parts.path) + len(parts.query) > 12 else ""
    return f"{parts.scheme}://{_host_and_port(parts)}/…{tail}"


def _host_and_port(parts: SplitResult) -> str:
    host = f"[{parts.hostname}]" if ":" in (parts.hostname or "") else parts.hostname or ""
    return host if parts.port is None else f"{host}:{parts.port}"


def lane_of(way: Way, address: str) -> str:
    """Notifications of one lane wait for each other, and for no others: those to one machine."""
    parts = None if way is Way.MAIL else _parts(address)
    return "mail" if parts is None else _host_and_port(parts).lower()


# -- trying again

FEW = 3  # tries of what was refused for good: the receiver may just be being set up
SLOWEST = timedelta(hours=1)  # between two tries


def wait_after(tries: int, first: timedelta, chance: float) -> timedelta:
    """Before the next try, after so many. `chance` in [0, 1) spreads those that failed together."""
    longest = min(first.total_seconds() * 2.0 ** min(tries - 1, 40), SLOWEST.total_seconds())
    return timedelta(seconds=longest * (0.5 + chance / 2))


# -- words


def read_events(words: Iterable[str]) -> frozenset[NotificationEvent]:
    """KeyError names the word that is none of them."""
    known = {event.value: event for event in CHOICES}
    return frozenset(known[word.strip().lower()] for word in words)


def in_order(events: Iterable[NotificationEvent]) -> list[str]:
    chosen = frozenset(events)
    return [event.value for event in CHOICES if event in chosen]
