"""Notifications: their recipients and deliveries."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Annotated, NotRequired, TypedDict

from .limits import Limits


@dataclass(frozen=True, slots=True, kw_only=True)
class Recipient:
    """Where a user gets which notifications."""

    id: str
    way: str = ""
    address: Annotated[str, "Of webhooks in part: the whole address allows to write there."] = ""
    events: tuple[str, ...] = ()
    created_at: datetime
    secret: Annotated[str | None, "Its receiver checks signatures with it; shown to its owner alone."] = None
    problem: Annotated[str | None, "Why nothing can be sent there, and what to do; null: no problem."] = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Notification:
    """A notification and its delivery."""

    id: Annotated[str, "The same in every try, so that receivers detect duplicates."]
    event: str = ""
    job: str | None = None
    subject: str = ""
    way: str = ""
    address: str = ""
    state: Annotated[str, "waiting, sending, sent, unconfirmed (it may have arrived) or failed."] = ""
    tries: int = 0
    error: Annotated[str, "The result of the last try."] = ""
    created_at: datetime
    next_at: datetime | None = None
    ended_at: datetime | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class NotificationPage:
    items: tuple[Notification, ...]
    next: Annotated[int | None, "The `before` of the next page; null: this is the last one."] = None


@dataclass(frozen=True, slots=True, kw_only=True)
class NotificationTest:
    arrived: bool
    said: Annotated[str, "The response: a status, or why there is none."] = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class NotificationSecret:
    secret: str


_Events = Annotated[Sequence[str], Limits(max_length=20)]
_Address = Annotated[str, Limits(max_length=2000)]


class NewRecipient(TypedDict):
    way: Annotated[str, "webhook, slack or mail.", Limits(max_length=20)]
    address: _Address
    events: NotRequired[Annotated[_Events | None, "Left out: all but started, stopped and retried."]]


class RecipientChange(TypedDict):
    events: _Events


class NotificationAddress(TypedDict):
    address: _Address
