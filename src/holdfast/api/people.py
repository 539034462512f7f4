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
class CreatedToken(Token):
    token: Annotated[str, "Returned only once."] = field(repr=False)


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
    """A login link for a browser, valid once."""

    code: Annotated[str, "Valid once."] = field(default="", repr=False)
    url: Annotated[str, "Link to open in a browser."] = field(repr=False)
    user: str = ""
    expires_in: Annotated[float, "Seconds."] = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditEvent:
    """An entry of the audit log."""

    seq: int
    at: datetime
    user: Annotated[str, "User; empty: not logged in."] = ""
    kind: str = ""
    act: str = ""
    subject: Annotated[str, "Name or id of the object."] = ""
    address: Annotated[str, "Client address; empty: the server itself."] = ""
    detail: Annotated[Mapping[str, str], "Changed values; never secrets."] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditPage:
    items: tuple[AuditEvent, ...]
    next: Annotated[int | None, "`before` of the next page; null: last page."] = None


_Email = Annotated[str, Limits(max_length=320)]


class Credentials(TypedDict):
    user: Name
    password: Text
    device: NotRequired[Annotated[Name, "Device of an earlier login from this client."]]


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
        "A list, or group -> whether the user is its admin. Default: the group `default`.",
    ]


class NewUser(NewUserFields):
    name: Name
    password: NotRequired[Annotated[Text | None, "Omitted: no password login."]]


class UserChange(TypedDict, total=False):
    admin: bool | None
    email: _Email | None
    disabled: bool | None


class TokenFields(TypedDict, total=False):
    expires_in: Annotated[float | None, "Seconds. Default: no expiry.", Limits(gt=0)]
    user: Annotated[Name | None, "Owner of the token; admins only."]


class TokenRequest(TokenFields, total=False):
    name: Name


class NewSshKey(TypedDict):
    value: Annotated[str, "The public key, on one line.", Limits(max_length=20_000)]
    title: NotRequired[Annotated[Name, "Default: the comment of the key."]]
