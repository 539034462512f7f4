"""Users, their logins, tokens and SSH keys; the audit log."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Annotated


@dataclass(frozen=True, slots=True, kw_only=True)
class Login:
    token: str = field(repr=False)
    user: str = ""
    expires_at: datetime | None = None
    device: Annotated[str, "Send it with the next login from this client."] = field(default="", repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Me:
    name: str
    admin: bool = False
    email: str = ""
    groups: Annotated[Mapping[str, bool], "Group -> whether the user is its admin."] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class User(Me):
    disabled: bool = False
    created_at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class Token:
    id: str
    name: str = ""
    user: str = ""
    created_at: datetime
    expires_at: datetime | None = None
    last_used_at: datetime | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class NewToken(Token):
    token: Annotated[str, "Shown this once."] = field(repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class SshKey:
    """A public key of a user."""

    id: str
    title: str = ""
    type: str = ""
    fingerprint: str = ""
    value: str = ""
    added_at: datetime | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class LoginCode:
    """A link that logs a browser in, once."""

    code: Annotated[str, "Valid once."] = field(default="", repr=False)
    url: Annotated[str, "To open in a browser."] = field(repr=False)
    user: str = ""
    expires_in: Annotated[float, "Seconds."] = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditEvent:
    """An entry of the audit log."""

    seq: int
    at: datetime
    user: Annotated[str, "Who did it; empty: someone who was not logged in."] = ""
    kind: str = ""
    act: str = ""
    subject: Annotated[str, "What it was done to, by name or id."] = ""
    address: Annotated[str, "Where the request came from; empty: the server itself."] = ""
    detail: Annotated[Mapping[str, str], "What was set; never a secret."] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditPage:
    items: tuple[AuditEvent, ...]
    next: Annotated[int | None, "The `before` of the next page; null: this is the last one."] = None
