"""One's own SSH keys, kept with the user as OpenPAI's clients keep them: what is added here is seen there, too."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from sqlalchemy import Connection

from holdfast.core.access import Actor
from holdfast.core.audit import Act, AuditKind
from holdfast.core.errors import Conflict, NotFound, UserError
from holdfast.core.messages import msg
from holdfast.launching.keys import sane_keys
from holdfast.store import people

from ..audit import AuditedStore, AuditEntry
from ..names import check_text
from .extensions import MAX_KEYS, check_extension

SSH_KEYS = "sshKeys"  # in an extension
MAX_TITLE_LENGTH = 100
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True, kw_only=True)
class SshKey:
    id: str  # the beginning of its fingerprint, in hexadecimal
    title: str
    type: str  # such as ssh-ed25519
    fingerprint: str  # as `ssh-keygen -l` shows it
    value: str  # the public key, one line
    added_at: datetime | None


class Keys:
    def __init__(self, store: AuditedStore, forget: Callable[[], None], *, clock: Callable[[], datetime]) -> None:
        self._store = store
        self._forget = forget  # what others remember of keys
        self._clock = clock

    async def list(self, actor: Actor) -> list[SshKey]:
        """One's own, in the order they were added."""
        user = await self._store.read(people.get_user, actor.name)
        return [] if user is None else [key for each in _kept(user.extension) if (key := _read(each)) is not None]

    async def add(self, actor: Actor, value: str, *, title: str = "") -> SshKey:
        """`value` is the text of a file such as ~/.ssh/id_ed25519.pub. Without a title it goes by its comment."""
        line = check_public_key(value)
        title = title.strip() or line.partition(" ")[2].partition(" ")[2] or line.split(" ")[0]
        check_text(title, "title", longest=MAX_TITLE_LENGTH)
        now = self._clock()
        kept = {"title": title, "value": line, "time": int((now - _EPOCH) / timedelta(milliseconds=1))}
        made = _read(kept)
        assert made is not None
        await self._store.write(_deed(actor, Act.CREATED, made), _add, actor.name, kept, made.id)
        self._forget()
        return made

    async def remove(self, actor: Actor, id: str) -> SshKey:
        """By its id or its fingerprint."""
        fitting = [key for key in await self.list(actor) if id in (key.id, key.fingerprint)]
        if not fitting:
            raise NotFound(msg("You have no SSH key {id}", id=id[:100]), hint=msg("`holdfast key ls` lists them."))
        await self._store.write(_deed(actor, Act.REMOVED, fitting[0]), _remove, actor.name, fitting[0].id)
        self._forget()
        return fitting[0]


def _deed(actor: Actor, act: Act, key: SshKey) -> AuditEntry:
    detail = {"title": key.title, "fingerprint": key.fingerprint}
    return AuditEntry(actor=actor.name, kind=AuditKind.KEY, act=act, subject=actor.name, detail=detail)


def key_blobs(extension: Mapping[str, Any]) -> list[bytes]:
    """A user's public keys as they go over the wire."""
    return [base64.b64decode(key.value.split(" ")[1]) for each in _kept(extension) if (key := _read(each)) is not None]


def refuse_others_keys(
    conn: Connection, user: str, extension: Mapping[str, Any], before: Mapping[str, Any], field: str
) -> None:
    """Conflict when a key that comes to `extension` is another user's: whoever holds it is one person. Public keys are
    no secret, so that anybody could claim them."""
    new = set(key_blobs(extension)).difference(key_blobs(before))
    if not new:
        return
    for other in people.list_users(conn):
        if other.name != user and not new.isdisjoint(key_blobs(other.extension)):
            raise others_key(field)


def others_key(field: str) -> Conflict:
    """Whose it is, is not told."""
    return Conflict(
        msg("Another user has this SSH key"),
        field=field,
        hint=msg(
            "Everybody needs a key of their own: `ssh-keygen -t ed25519` makes a pair. If this one "
            "is yours, ask an admin to take it from them."
        ),
    )


def check_public_key(value: str, field: str = "value") -> str:
    """As one sane line."""
    text = value.strip()
    if "PRIVATE KEY" in text:
        raise UserError(
            msg("This is the private key, which nobody else should have"),
            field=field,
            hint=msg("Give the public one: the file beside it whose name ends in .pub."),
        )
    found = sane_keys([text]) if len(text.splitlines()) == 1 else []
    if not found:
        raise UserError(
            msg("This is not a public key on one line"),
            field=field,
            hint=msg("It looks like `ssh-ed25519 AAAA... name`; `ssh-keygen -t ed25519` makes a pair."),
        )
    return found[0]


def _kept(extension: Mapping[str, Any]) -> list[Any]:
    found = extension.get(SSH_KEYS)
    return list(found) if isinstance(found, list) else []


def _read(kept: Any) -> SshKey | None:
    """None for what is no key: it may be from before they were checked."""
    value = kept.get("value") if isinstance(kept, dict) else None
    lines = sane_keys([value]) if isinstance(value, str) else []
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
        added_at=_moment(kept.get("time")),
    )


def _moment(time: Any) -> datetime | None:
    try:
        return _EPOCH + timedelta(milliseconds=float(time))
    except (TypeError, ValueError, OverflowError):
        return None


# -- within one write each


def _add(conn: Connection, user: str, kept: dict[str, Any], id: str) -> None:
    extension = _extension(conn, user)
    before = _kept(extension)
    if any((known := _read(each)) is not None and known.id == id for each in before):
        raise Conflict(msg("You have this key already"), field="value")
    if len(before) >= MAX_KEYS:
        raise UserError(
            msg("A user has at most {most_keys} SSH keys", most_keys=MAX_KEYS),
            field="value",
            hint=msg("Remove some first."),
        )
    refuse_others_keys(conn, user, {SSH_KEYS: [kept]}, extension, "value")
    _keep(conn, user, extension, [*before, kept])


def _remove(conn: Connection, user: str, id: str) -> None:
    extension = _extension(conn, user)
    left = [each for each in _kept(extension) if (known := _read(each)) is None or known.id != id]
    _keep(conn, user, extension, left)


def _extension(conn: Connection, user: str) -> dict[str, Any]:
    found = people.get_user(conn, user)
    if found is None:
        raise NotFound(msg("There is no user {user}", user=user))
    return dict(found.extension)


def _keep(conn: Connection, user: str, extension: dict[str, Any], keys: list[Any]) -> None:
    changed = {**extension, SSH_KEYS: keys}
    check_extension(changed)
    people.set_user_extension(conn, user, changed)
