"""Notifications: their recipients and deliveries."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Annotated, NotRequired, TypedDict

from .limits import Limits


@dataclass(frozen=True, slots=True, kw_only=True)
class Recipient:
    """A recipient of notifications."""

    id: str
    way: str = ""
    address: Annotated[str, "Webhook addresses are masked, since they grant write access."] = ""
    events: tuple[str, ...] = ()
    created_at: datetime
    secret: Annotated[str | None, "Signing secret; only returned to its owner."] = None
    problem: Annotated[str | None, "Why delivery is impossible, and how to fix it; null: no problem."] = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Notification:
    """A notification and its delivery."""

    id: Annotated[str, "The same in every delivery attempt, to detect duplicates."]
    event: str = ""
    job: str | None = None
    subject: str = ""
    way: str = ""
    address: str = ""
    state: Annotated[str, "waiting, sending, sent, unconfirmed (it may have arrived) or failed."] = ""
    tries: int = 0
    error: Annotated[str, "Result of the last delivery attempt."] = ""
    created_at: datetime
    next_at: datetime | None = None
    ended_at: datetime | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class NotificationPage:
    items: tuple[Notification, ...]
    next: Annotated[int | None, "`before` of the next page; null: last page."] = None


@dataclass(frozen=True, slots=True, kw_only=True)
class NotificationTestResult:
    delivered: bool
    detail: Annotated[str, "Response status, or why there is no response."] = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class NotificationSecret:
    secret: str


_Events = Annotated[Sequence[str], Limits(max_length=20)]
_Address = Annotated[str, Limits(max_length=2000)]


class NewRecipient(TypedDict):
    way: Annotated[str, "webhook, slack or mail.", Limits(max_length=20)]
    address: _Address
    events: NotRequired[Annotated[_Events | None, "Default: all except started, stopped and retried."]]


class RecipientChange(TypedDict):
    events: _Events


class NotificationAddress(TypedDict):
    address: _Address
