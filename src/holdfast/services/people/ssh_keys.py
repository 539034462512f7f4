"""SSH keys of users, stored in the format of OpenPAI's clients, which see them too."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from sqlalchemy import Connection

from holdfast.core.access import Actor
from holdfast.core.audit import AuditAction, AuditKind
from holdfast.core.errors import Conflict, NotFound, UserError
from holdfast.core.messages import msg
from holdfast.launching.keys import filter_public_keys
from holdfast.store import people

from ..audit import AuditedStore, AuditEntry
from ..names import check_text
from .extensions import MAX_SSH_KEYS, check_extension

SSH_KEYS_FIELD = "sshKeys"  # in an extension
MAX_TITLE_LENGTH = 100
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True, kw_only=True)
class SshKey:
    id: str  # prefix of its fingerprint, in hexadecimal
    title: str
    type: str  # such as ssh-ed25519
    fingerprint: str  # as `ssh-keygen -l` shows it
    value: str  # the public key, one line
    added_at: datetime | None


class SshKeys:
    def __init__(self, store: AuditedStore, forget: Callable[[], None], *, clock: Callable[[], datetime]) -> None:
        self._store = store
        self._invalidate_caches = forget  # invalidates caches of keys
        self._clock = clock

    async def list(self, actor: Actor) -> list[SshKey]:
        """Return the actor's keys in the order they were added."""
        user = await self._store.read(people.get_user, actor.name)
        return (
            []
            if user is None
            else [key for each in _get_stored_keys(user.extension) if (key := _parse_stored_key(each)) is not None]
        )

    async def add(self, actor: Actor, value: str, *, title: str = "") -> SshKey:
        """Add a key from the text of a file such as ~/.ssh/id_ed25519.pub. The default title is its comment."""
        line = parse_public_key(value)
        title = title.strip() or line.partition(" ")[2].partition(" ")[2] or line.split(" ")[0]
        check_text(title, "title", longest=MAX_TITLE_LENGTH)
        now = self._clock()
        kept = {"title": title, "value": line, "time": int((now - _EPOCH) / timedelta(milliseconds=1))}
        made = _parse_stored_key(kept)
        assert made is not None
        await self._store.write(_build_key_entry(actor, AuditAction.CREATED, made), _add_key, actor.name, kept, made.id)
        self._invalidate_caches()
        return made

    async def remove(self, actor: Actor, id: str) -> SshKey:
        """Remove a key by its id or fingerprint."""
        fitting = [key for key in await self.list(actor) if id in (key.id, key.fingerprint)]
        if not fitting:
            raise NotFound(
                msg("SSH key {id} not found", id=id[:100]), hint=msg("Run `holdfast key ls` to list your SSH keys.")
            )
        await self._store.write(
            _build_key_entry(actor, AuditAction.REMOVED, fitting[0]), _remove_key, actor.name, fitting[0].id
        )
        self._invalidate_caches()
        return fitting[0]


def _build_key_entry(actor: Actor, act: AuditAction, key: SshKey) -> AuditEntry:
    detail = {"title": key.title, "fingerprint": key.fingerprint}
    return AuditEntry(actor.name, AuditKind.KEY, act, actor.name, detail)


def list_key_blobs(extension: Mapping[str, Any]) -> list[bytes]:
    """Return a user's public keys in SSH wire format."""
    return [
        base64.b64decode(key.value.split(" ")[1])
        for each in _get_stored_keys(extension)
        if (key := _parse_stored_key(each)) is not None
    ]


def check_key_owners(
    conn: Connection, user: str, extension: Mapping[str, Any], before: Mapping[str, Any], field: str
) -> None:
    """Raise Conflict if a new key belongs to another user: public keys are not secret, so anyone could claim them."""
    new = set(list_key_blobs(extension)).difference(list_key_blobs(before))
    if not new:
        return
    for other in people.list_users(conn):
        if other.name != user and not new.isdisjoint(list_key_blobs(other.extension)):
            raise build_key_in_use_error(field)


def build_key_in_use_error(field: str) -> Conflict:
    """The error does not reveal the owner."""
    return Conflict(
        msg("This SSH key belongs to another user"),
        field=field,
        hint=msg(
            "Create your own key pair with `ssh-keygen -t ed25519`. If this key is yours, ask an admin to remove "
            "it from the other user."
        ),
    )


def parse_public_key(value: str, field: str = "value") -> str:
    """Return the public key as one normalized line."""
    text = value.strip()
    if "PRIVATE KEY" in text:
        raise UserError(
            msg("This is a private key, which you must not share"),
            field=field,
            hint=msg("Use the public key: the file with the same name and the suffix .pub."),
        )
    found = filter_public_keys([text]) if len(text.splitlines()) == 1 else []
    if not found:
        raise UserError(
            msg("This is not a one-line public key"),
            field=field,
            hint=msg("Use a key such as `ssh-ed25519 AAAA... name`. Run `ssh-keygen -t ed25519` to create a key pair."),
        )
    return found[0]


def _get_stored_keys(extension: Mapping[str, Any]) -> list[Any]:
    found = extension.get(SSH_KEYS_FIELD)
    return list(found) if isinstance(found, list) else []


def _parse_stored_key(kept: Any) -> SshKey | None:
    """Parse a stored key; None for an invalid one, stored before keys were validated."""
    value = kept.get("value") if isinstance(kept, dict) else None
    lines = filter_public_keys([value]) if isinstance(value, str) else []
    if len(lines) != 1:
        return None
    kind, blob = lines[0].split(" ")[:2]
    digest = hashlib.sha256(base64.b64decode(blob)).digest()
    return SshKey(
        id=digest.hex()[:16],
        title=str(kept.get("title") or kind),
        type=kind,
        fingerprint="SHA256:" + base64.b64encode(digest).decode().rstrip("="),
        value=lines[0],
        added_at=_parse_added_at(kept.get("time")),
    )


def _parse_added_at(time: Any) -> datetime | None:
    try:
        return _EPOCH + timedelta(milliseconds=float(time))
    except (TypeError, ValueError, OverflowError):
        return None


# -- inside a write transaction


def _add_key(conn: Connection, user: str, kept: dict[str, Any], id: str) -> None:
    extension = _load_extension(conn, user)
    before = _get_stored_keys(extension)
    if any((known := _parse_stored_key(each)) is not None and known.id == id for each in before):
        raise Conflict(msg("You already have this key"), field="value")
    if len(before) >= MAX_SSH_KEYS:
        raise UserError(
            msg("A user can have at most {max_keys} SSH keys", max_keys=MAX_SSH_KEYS),
            field="value",
            hint=msg("Remove some first."),
        )
    check_key_owners(conn, user, {SSH_KEYS_FIELD: [kept]}, extension, "value")
    _save_keys(conn, user, extension, [*before, kept])


def _remove_key(conn: Connection, user: str, id: str) -> None:
    extension = _load_extension(conn, user)
    left = [
        each for each in _get_stored_keys(extension) if (known := _parse_stored_key(each)) is None or known.id != id
    ]
    _save_keys(conn, user, extension, left)


def _load_extension(conn: Connection, user: str) -> dict[str, Any]:
    found = people.get_user(conn, user)
    if found is None:
        raise NotFound(msg("User {user} not found", user=user))
    return dict(found.extension)


def _save_keys(conn: Connection, user: str, extension: dict[str, Any], keys: list[Any]) -> None:
    changed = {**extension, SSH_KEYS_FIELD: keys}
    check_extension(changed)
    people.set_user_extension(conn, user, changed)
