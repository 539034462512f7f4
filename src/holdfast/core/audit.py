"""Audit entries: kinds, actions and queries."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum


class AuditKind(StrEnum):
    """The kind of object that was changed."""

    LOGIN = "login"
    PASSWORD = "password"  # noqa: S105 - the word
    TOKEN = "token"  # noqa: S105 - the word
    KEY = "key"
    USER = "user"
    GROUP = "group"
    MEMBER = "member"
    INSTANCE_TYPE = "instance-type"
    IMAGE = "image"
    IMAGE_ALIAS = "image-alias"
    DATASET = "dataset"
    SECRET = "secret"  # noqa: S105 - the word
    SCHEDULE = "schedule"
    RECIPIENT = "recipient"  # of notifications
    STORAGE = "storage"  # pruned logs, artifacts and others


class AuditAction(StrEnum):
    """The action on the object."""

    CREATED = "created"
    CHANGED = "changed"
    REMOVED = "removed"
    GRANTED = "granted"
    REVOKED = "revoked"
    BEGUN = "begun"  # a login
    FAILED = "failed"
    ENDED = "ended"


@dataclass(frozen=True, slots=True, kw_only=True)
class NewAuditEvent:
    at: datetime
    actor: str  # empty: not logged in
    kind: AuditKind
    act: AuditAction
    subject: str  # what it was done to, by name or id
    address: str = ""  # where it came from; empty: the server itself
    detail: Mapping[str, str] = field(default_factory=dict)  # what was set; never a secret


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditEvent(NewAuditEvent):
    seq: int


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditQuery:
    """Filters of the audit log; None: any."""

    actor: str | None = None
    kind: AuditKind | None = None
    subject: str | None = None
    since: datetime | None = None
    until: datetime | None = None
    before: int | None = None  # older than the event with this seq
    limit: int = 50


@dataclass(frozen=True, slots=True)
class AuditPage:
    items: tuple[AuditEvent, ...]
    next_before: int | None  # cursor of the next page; None: this is the last
