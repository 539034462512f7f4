"""Secrets that admins keep for the platform's own errands: cloning from git, pulling images. A value goes in and never
comes out again but to what needs it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from sqlalchemy import Connection

from holdfast.core.access import Actor, Verb, may
from holdfast.core.audit import Act, AuditKind
from holdfast.core.catalogue import Secret, SecretKind
from holdfast.core.errors import Conflict, Forbidden, NotFound, UserError
from holdfast.core.messages import msg
from holdfast.store import secrets as secret_rows

from ..audit import AuditedStore, AuditEntry, given
from ..name_suggestions import nearest
from ..names import check_name, check_text
from ..people.groups import UNSET, Unset
from .secret_values import check_value


@dataclass(frozen=True, slots=True, kw_only=True)
class SecretChange:
    display_name: str | Unset = UNSET
    registry_host: str | Unset = UNSET
    username: str | Unset = UNSET
    value: str | Unset = UNSET

    def __repr__(self) -> str:
        return "SecretChange(...)"  # it may end up in a trace, the value must not


class Secrets:
    def __init__(self, store: AuditedStore) -> None:
        self._store = store

    async def list(self, actor: Actor) -> list[Secret]:
        """All, for admins; those for registries, for others: they are what one may name with an image."""
        found = await self._store.read(secret_rows.list_secrets)
        return [secret for secret in found if _may_see(actor, secret)]

    async def get(self, actor: Actor, name: str) -> Secret:
        secret = await self._store.read(secret_rows.get_secret, name)
        if secret is None or not _may_see(actor, secret):
            raise _unknown(name, await self.list(actor))
        return secret

    async def create(self, actor: Actor, secret: Secret, value: str) -> Secret:
        _need_admin(actor)
        check_name(secret.name, "secret")
        _check(secret)
        check_value(secret.kind, value)
        await self._store.write(
            _deed(actor, Act.CREATED, secret.name, secret), secret_rows.create_secret, secret, value
        )
        return secret

    async def change(self, actor: Actor, name: str, change: SecretChange) -> Secret:
        """What is given. Its kind stays: what uses it relies on that."""
        _need_admin(actor)
        return await self._store.write(_deed(actor, Act.CHANGED, name, change), _change, name, change)

    async def delete(self, actor: Actor, name: str) -> None:
        """Conflict while a dataset or an image goes by it."""
        _need_admin(actor)
        await self._store.write(_deed(actor, Act.REMOVED, name), _delete, name)

    async def value(self, name: str) -> str | None:
        """For the platform's own use: never show it, log it or put it into an error."""
        return await self._store.read(secret_rows.secret_value, name)


def _deed(actor: Actor, act: Act, name: str, what: Secret | SecretChange | None = None) -> AuditEntry:
    return AuditEntry(
        actor=actor.name, kind=AuditKind.SECRET, act=act, subject=name, detail={} if what is None else given(what)
    )


def _may_see(actor: Actor, secret: Secret) -> bool:
    return may(actor, Verb.MANAGE_PLACE) or secret.kind is SecretKind.REGISTRY


def _unknown(name: str, known: Iterable[Secret]) -> NotFound:
    hint = nearest(name, [secret.name for secret in known], "holdfast secret ls")
    return NotFound(msg("There is no secret {name}", name=name[:100]), hint=hint)


def _need_admin(actor: Actor) -> None:
    if not may(actor, Verb.MANAGE_PLACE):
        raise Forbidden(msg("Only admins manage secrets"))


def _check(secret: Secret) -> None:
    check_text(secret.display_name, "display_name")
    check_text(secret.registry_host, "registry_host", longest=300)
    check_text(secret.username, "username", longest=300)
    if secret.kind is SecretKind.REGISTRY:
        if not secret.registry_host or any(sign.isspace() for sign in secret.registry_host):
            raise UserError(msg("A registry secret needs a host"), field="registry_host", hint=msg("Such as ghcr.io."))
        if not secret.username:
            raise UserError(msg("A registry secret needs a user name"), field="username")
    elif secret.registry_host:
        raise UserError(msg("Only registry secrets have a host"), field="registry_host")


# -- within one write each


def _change(conn: Connection, name: str, change: SecretChange) -> Secret:
    secret = secret_rows.get_secret(conn, name)
    if secret is None:
        raise _unknown(name, secret_rows.list_secrets(conn))
    given = {key: getattr(change, key) for key in ("display_name", "registry_host", "username")}
    after = replace(secret, **{key: value for key, value in given.items() if not isinstance(value, Unset)})
    _check(after)
    if not isinstance(change.value, Unset):
        check_value(secret.kind, change.value)
    secret_rows.update_secret(conn, after, None if isinstance(change.value, Unset) else change.value)
    return after


def _delete(conn: Connection, name: str) -> None:
    if secret_rows.get_secret(conn, name) is None:
        raise _unknown(name, secret_rows.list_secrets(conn))
    users = secret_rows.users_of_secret(conn, name)
    if users:
        more = msg(" and {x1} more", x1=len(users) - 5) if len(users) > 5 else ""
        raise Conflict(
            msg("The secret {name} is in use by {users}{more}", name=name, users=", ".join(users[:5]), more=more),
            hint=msg("Give them another secret, or none."),
        )
    secret_rows.delete_secret(conn, name)
