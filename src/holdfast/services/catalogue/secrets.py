"""Secrets of admins for cloning from git and pulling images. A value is write-only for users and is only read by the
component that needs it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from sqlalchemy import Connection

from holdfast.core.access import Actor, Permission, has_permission
from holdfast.core.audit import AuditAction, AuditKind
from holdfast.core.catalogue import Secret, SecretKind
from holdfast.core.errors import Conflict, NotFound, UserError
from holdfast.core.messages import msg
from holdfast.store import secrets as secret_rows

from ..audit import AuditedStore, AuditEntry, collect_set_fields
from ..name_suggestions import suggest_name
from ..names import check_name, check_text
from ..people.groups import UNSET, Unset
from ..permissions import require_admin
from .secret_values import check_secret_value

ADMINS_ONLY_MESSAGE = msg("Only admins can manage secrets")


@dataclass(frozen=True, slots=True, kw_only=True)
class SecretChange:
    display_name: str | Unset = UNSET
    registry_host: str | Unset = UNSET
    username: str | Unset = UNSET
    value: str | Unset = UNSET

    def __repr__(self) -> str:
        return "SecretChange(...)"  # keeps the value out of tracebacks


class Secrets:
    def __init__(self, store: AuditedStore) -> None:
        self._store = store

    async def list(self, actor: Actor) -> list[Secret]:
        """Return all secrets for admins, and registry secrets, which image aliases can use, for other users."""
        found = await self._store.read(secret_rows.list_secrets)
        return [secret for secret in found if _can_see_secret(actor, secret)]

    async def get(self, actor: Actor, name: str) -> Secret:
        secret = await self._store.read(secret_rows.get_secret, name)
        if secret is None or not _can_see_secret(actor, secret):
            raise _build_secret_not_found_error(name, await self.list(actor))
        return secret

    async def create(self, actor: Actor, secret: Secret, value: str) -> Secret:
        require_admin(actor, ADMINS_ONLY_MESSAGE)
        check_name(secret.name, "secret")
        _check_secret(secret)
        check_secret_value(secret.kind, value)
        detail = collect_set_fields(secret)
        entry = AuditEntry(actor.name, AuditKind.SECRET, AuditAction.CREATED, secret.name, detail)
        await self._store.write(entry, secret_rows.create_secret, secret, value)
        return secret

    async def change(self, actor: Actor, name: str, change: SecretChange) -> Secret:
        """Change the given fields. The kind cannot change, because users of the secret rely on it."""
        require_admin(actor, ADMINS_ONLY_MESSAGE)
        entry = AuditEntry(actor.name, AuditKind.SECRET, AuditAction.CHANGED, name, collect_set_fields(change))
        return await self._store.write(entry, _update_secret, name, change)

    async def delete(self, actor: Actor, name: str) -> None:
        """Delete a secret; raise Conflict while a dataset or an image uses it."""
        require_admin(actor, ADMINS_ONLY_MESSAGE)
        entry = AuditEntry(actor.name, AuditKind.SECRET, AuditAction.REMOVED, name)
        await self._store.write(entry, _delete_secret, name)

    async def load_value(self, name: str) -> str | None:
        """Return the value, for internal use: never show it, log it or put it into an error."""
        return await self._store.read(secret_rows.load_secret_value, name)


def _can_see_secret(actor: Actor, secret: Secret) -> bool:
    return has_permission(actor, Permission.MANAGE_INSTALLATION) or secret.kind is SecretKind.REGISTRY


def _build_secret_not_found_error(name: str, known: Iterable[Secret]) -> NotFound:
    hint = suggest_name(name, [secret.name for secret in known], "holdfast secret ls")
    return NotFound(msg("Secret {name} not found", name=name[:100]), hint=hint)


def _check_secret(secret: Secret) -> None:
    check_text(secret.display_name, "display_name")
    check_text(secret.registry_host, "registry_host", longest=300)
    check_text(secret.username, "username", longest=300)
    if secret.kind is SecretKind.REGISTRY:
        if not secret.registry_host or any(sign.isspace() for sign in secret.registry_host):
            raise UserError(
                msg("A registry secret requires a host"), field="registry_host", hint=msg("Example: ghcr.io.")
            )
        if not secret.username:
            raise UserError(msg("A registry secret requires a user name"), field="username")
    elif secret.registry_host:
        raise UserError(msg("Only registry secrets can have a host"), field="registry_host")


# -- inside a write transaction


def _require_secret(conn: Connection, name: str) -> Secret:
    secret = secret_rows.get_secret(conn, name)
    if secret is None:
        raise _build_secret_not_found_error(name, secret_rows.list_secrets(conn))
    return secret


def _update_secret(conn: Connection, name: str, change: SecretChange) -> Secret:
    secret = _require_secret(conn, name)
    changes = collect_set_fields(change)
    value = changes.pop("value", None)
    after = replace(secret, **changes)
    _check_secret(after)
    if value is not None:
        check_secret_value(secret.kind, value)
    secret_rows.update_secret(conn, after, value)
    return after


def _delete_secret(conn: Connection, name: str) -> None:
    _require_secret(conn, name)
    users = secret_rows.list_secret_references(conn, name)
    if users:
        more = msg(" and {count} more", count=len(users) - 5) if len(users) > 5 else ""
        raise Conflict(
            msg("The secret {name} is in use by {users}{more}", name=name, users=", ".join(users[:5]), more=more),
            hint=msg("Set another secret for them, or remove the secret from them."),
        )
    secret_rows.delete_secret(conn, name)
