"""Users, their logins, tokens and SSH keys; the audit log."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Annotated, NotRequired, TypedDict

from .limits import Limits, Name, Text


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


_Email = Annotated[str, Limits(max_length=320)]


class Credentials(TypedDict):
    user: Name
    password: Text
    device: NotRequired[Annotated[Name, "Of an earlier login from this client."]]


class PasswordChange(TypedDict):
    old: Text
    new: Text


class NewPassword(TypedDict):
    password: Text


class NewUserFields(TypedDict, total=False):
    admin: bool | None
    email: _Email | None
    groups: Annotated[
        Mapping[str, bool] | Sequence[str] | None,
        "A list, or group -> whether the user is its admin. Left out: the default group.",
    ]


class NewUser(NewUserFields):
    name: Name
    password: NotRequired[Annotated[Text | None, "Left out: the user cannot log in by password."]]


class UserChange(TypedDict, total=False):
    admin: bool | None
    email: _Email | None
    disabled: bool | None


class TokenFields(TypedDict, total=False):
    expires_in: Annotated[float | None, "Seconds; left out: it does not expire.", Limits(gt=0)]
    user: Annotated[Name | None, "Whose; admins only."]


class TokenRequest(TokenFields, total=False):
    name: Name


class NewKey(TypedDict):
    value: Annotated[str, "The public key, on one line.", Limits(max_length=20_000)]
    title: NotRequired[Annotated[Name, "Left out: the key's comment."]]
