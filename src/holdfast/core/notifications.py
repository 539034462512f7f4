"""Notifications: events, channels, recipients and addresses."""

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
    TEST = "test"  # a user tests a recipient
    DROPPED = "left-out"  # too many notifications were dropped


SELECTABLE_EVENTS = tuple(
    event for event in NotificationEvent if event not in (NotificationEvent.TEST, NotificationEvent.DROPPED)
)
DEFAULT_EVENTS = frozenset(SELECTABLE_EVENTS) - {
    NotificationEvent.STARTED,
    NotificationEvent.STOPPED,
    NotificationEvent.RETRIED,
}

# Events that require action: sent even above the limit.
URGENT_EVENTS = frozenset({NotificationEvent.HELD, NotificationEvent.DEBUGGER_WAITING, NotificationEvent.HOLD_ENDING})

# Job events that cause notifications.
EVENTS_BY_KIND = {
    "started": NotificationEvent.STARTED,
    "succeeded": NotificationEvent.SUCCEEDED,
    "failed": NotificationEvent.FAILED,
    "cancelled": NotificationEvent.STOPPED,
    "retry": NotificationEvent.RETRIED,
    "held": NotificationEvent.HELD,
    "debugger-waiting": NotificationEvent.DEBUGGER_WAITING,
    "hold-ending": NotificationEvent.HOLD_ENDING,
}


class Channel(StrEnum):
    WEBHOOK = "webhook"  # JSON
    SLACK = "slack"  # Slack's format, which many others accept
    MAIL = "mail"


@dataclass(frozen=True, slots=True, kw_only=True)
class Recipient:
    """An address and its events."""

    way: Channel
    address: str  # a URL or an email address; the former is a secret, shown partially
    events: frozenset[NotificationEvent]


@dataclass(frozen=True, slots=True, kw_only=True)
class NotifySpec:
    """Notifications that a job requests."""

    events: frozenset[NotificationEvent]
    way: Channel | None = None  # None: to its owner's recipients, regardless of their events
    address: str = ""  # with a channel; empty with MAIL: its owner's address


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredRecipient:
    """A stored recipient of a user."""

    id: str
    user: str
    recipient: Recipient  # without an address if it cannot be decrypted
    created_at: datetime

    @property
    def readable(self) -> bool:
        """Whether its address can be decrypted; otherwise nothing can be sent to it."""
        return bool(self.recipient.address)


class NotificationState(StrEnum):
    WAITING = "waiting"  # waiting for its first or next try
    SENDING = "sending"
    SENT = "sent"
    UNCONFIRMED = "unconfirmed"  # it may have arrived, and is not sent again
    FAILED = "failed"  # no more tries


@dataclass(frozen=True, slots=True, kw_only=True)
class NotificationRecord:
    """One notification to one recipient."""

    id: str  # receivers use it to detect duplicates
    seq: int  # order of creation
    user: str
    way: Channel
    address: str  # empty if it cannot be decrypted
    event: NotificationEvent
    job_id: str | None
    subject: str
    created_at: datetime
    state: NotificationState
    tries: int = 0
    next_at: datetime | None = None
    ended_at: datetime | None = None  # sent, or failed
    error: str = ""  # of the last try


# -- addresses

MAX_ADDRESS_LENGTH = 2000
MAX_MAIL_LENGTH = 254
_MAIL_PATTERN = re.compile(
    r"[A-Za-z0-9.!#$%&'*+/=?^_`{|}~-]{1,64}@[A-Za-z0-9](?:[A-Za-z0-9-]{0,61}[A-Za-z0-9])?"
    r"(?:\.[A-Za-z0-9](?:[A-Za-z0-9-]{0,61}[A-Za-z0-9])?)*"
)
_VISIBLE_ASCII_PATTERN = re.compile(r"[!-~]+")  # ASCII without spaces; nothing that could break a header


def find_address_problem(way: Channel, address: str) -> str | None:
    """Return what is wrong with an address, as the rest of a sentence; None: nothing."""
    return _find_mail_problem(address) if way is Channel.MAIL else _find_url_problem(address)


def _find_mail_problem(address: str) -> str | None:
    local = address.partition("@")[0]
    dots = local.startswith(".") or local.endswith(".") or ".." in local
    if len(address) > MAX_MAIL_LENGTH or not _MAIL_PATTERN.fullmatch(address) or dots:
        return msg("is not a valid email address such as ann@example.org")
    return None


def _find_url_problem(address: str) -> str | None:
    if len(address) > MAX_ADDRESS_LENGTH:
        return msg("is too long: at most {max_address_length} characters", max_address_length=MAX_ADDRESS_LENGTH)
    parts = _split_url(address)
    if parts is None or not parts.hostname:
        return msg("is not a valid URL such as https://hooks.example.org/a/b")
    if parts.scheme not in ("http", "https"):
        return msg("must begin with https:// or http://")
    if parts.username is not None or parts.password is not None:
        return msg("must not contain a user name or password")
    return None


def _split_url(address: str) -> SplitResult | None:
    if not _VISIBLE_ASCII_PATTERN.fullmatch(address):
        return None
    try:
        parts = urlsplit(address)
        _ = parts.port  # urlsplit reports a wrong port only on access
    except ValueError:
        return None
    return parts


def mask_address(way: Channel, address: str) -> str:
    """Mask an address so that recipients can be distinguished: a full webhook URL allows posting to it."""
    if way is Channel.MAIL:
        return address or "…"
    parts = _split_url(address)
    if parts is None:
        return "…"
    tail = address[-4:] if len(parts.path) + len(parts.query) > 12 else ""
    return f"{parts.scheme}://{_format_host_port(parts)}/…{tail}"


def _format_host_port(parts: SplitResult) -> str:
    host = f"[{parts.hostname}]" if ":" in (parts.hostname or "") else parts.hostname or ""
    return host if parts.port is None else f"{host}:{parts.port}"


def get_delivery_lane(way: Channel, address: str) -> str:
    """Return the delivery lane: notifications to one host wait for each other only."""
    parts = None if way is Channel.MAIL else _split_url(address)
    return "mail" if parts is None else _format_host_port(parts).lower()


# -- retries

MAX_REFUSED_TRIES = 3  # tries after a permanent refusal: the receiver may be under setup
MAX_RETRY_DELAY = timedelta(hours=1)  # between two tries


def compute_retry_delay(tries: int, first: timedelta, chance: float) -> timedelta:
    """Return the delay before the next try. `chance` in [0, 1) spreads tries that failed together."""
    longest = min(first.total_seconds() * 2.0 ** min(tries - 1, 40), MAX_RETRY_DELAY.total_seconds())
    return timedelta(seconds=longest * (0.5 + chance / 2))


# -- event names


def parse_events(words: Iterable[str]) -> frozenset[NotificationEvent]:
    """Parse event names; KeyError with an unknown one."""
    known = {event.value: event for event in SELECTABLE_EVENTS}
    return frozenset(known[word.strip().lower()] for word in words)


def list_event_names(events: Iterable[NotificationEvent]) -> list[str]:
    chosen = frozenset(events)
    return [event.value for event in SELECTABLE_EVENTS if event in chosen]
