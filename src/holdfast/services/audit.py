"""Audit events: who changed what about the place, when and from where.

Services that change it write through `AuditedStore`, which takes what is done along with how: both are written, or
neither, and nothing can be changed there without a word.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextvars import ContextVar
from dataclasses import MISSING, Field, dataclass, field, fields, is_dataclass
from datetime import datetime, timedelta
from typing import Any, Concatenate, ParamSpec, TypeVar

from sqlalchemy import Connection

from holdfast.core.access import Actor, Verb, may
from holdfast.core.audit import Act, AuditKind, AuditPage, AuditQuery, NewAuditEvent
from holdfast.core.errors import Forbidden, UserError
from holdfast.core.messages import msg
from holdfast.store import audit as audit_rows
from holdfast.store.database import Store

P = ParamSpec("P")
T = TypeVar("T")

MAX_LISTED = 500
MAX_DETAILS = 20
MAX_DETAIL_LENGTH = 300
MAX_SUBJECT_LENGTH = 300
BATCH = 1000
# Fields that are told to be set, but not to what: secrets, and what only clients understand.
UNSPOKEN = frozenset({"password", "value", "variables", "extension", "data"})
NOT_TOLD = frozenset({"name", "replace_extension", "created_at"})  # told as the subject, or of no interest
CLIENT_ADDRESS: ContextVar[str] = ContextVar("client_address", default="")  # of the request that is being answered


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditEntry:
    """Something that is about to be done."""

    actor: str
    kind: AuditKind
    act: Act
    subject: str | Callable[[Any], str]  # from the result of the write, where only that tells
    detail: Mapping[str, Any] = field(default_factory=dict)


class AuditedStore:
    """A store whose every change is told of."""

    def __init__(self, store: Store, *, clock: Callable[[], datetime]) -> None:
        self.plain = store
        self._clock = clock

    async def read(self, fn: Callable[Concatenate[Connection, P], T], /, *args: P.args, **kwargs: P.kwargs) -> T:
        return await self.plain.read(fn, *args, **kwargs)

    async def write(
        self, deed: AuditEntry, fn: Callable[Concatenate[Connection, P], T], /, *args: P.args, **kwargs: P.kwargs
    ) -> T:
        """As Store.write, and the event in the same write. None is written when `fn` raises."""
        now, address = self._clock(), CLIENT_ADDRESS.get()

        def both(conn: Connection) -> T:
            result = fn(conn, *args, **kwargs)
            audit_rows.insert_audit(conn, _event(deed, result, now, address))
            return result

        return await self.plain.write(both)

    async def write_quietly(
        self, fn: Callable[Concatenate[Connection, P], T], /, *args: P.args, **kwargs: P.kwargs
    ) -> T:
        """For what nobody did: seeds, notes, counters."""
        return await self.plain.write(fn, *args, **kwargs)

    async def note(self, deed: AuditEntry) -> None:
        """Something that was done elsewhere than in the store, or did not come about."""
        await self.plain.write(audit_rows.insert_audit, _event(deed, None, self._clock(), CLIENT_ADDRESS.get()))


class Audit:
    """Looking at what was done; and forgetting it, after a time."""

    def __init__(self, store: Store, keep: timedelta | None, *, clock: Callable[[], datetime]) -> None:
        self._store = store
        self._keep = keep  # None: for ever
        self._clock = clock

    async def list(self, actor: Actor, query: AuditQuery | None = None) -> AuditPage:
        """Newest first. For admins."""
        if not may(actor, Verb.MANAGE_PLACE):
            raise Forbidden(msg("Only admins see what others did"))
        query = query or AuditQuery()
        if not 1 <= query.limit <= MAX_LISTED:
            raise UserError(msg("limit is between 1 and {most_listed}", most_listed=MAX_LISTED), field="limit")
        return await self._store.read(audit_rows.list_audit, query)

    async def sweep(self) -> int:
        """Remove what is too old; how many."""
        removed = 0
        while self._keep is not None:
            done = await self._store.write(audit_rows.delete_audit, self._clock() - self._keep, BATCH)
            removed += done
            if done < BATCH:
                break
        return removed


def given(change: Any) -> dict[str, Any]:
    """The fields of a change that are set; those that are as they were are left out."""
    values = {each.name: getattr(change, each.name) for each in fields(change) if not _is_default(change, each)}
    return {key: value for key, value in values.items() if key not in NOT_TOLD}


def _is_default(change: Any, field: Field[Any]) -> bool:
    default = field.default if field.default_factory is MISSING else field.default_factory()
    return bool(getattr(change, field.name) == default)


def _event(deed: AuditEntry, result: Any, now: datetime, address: str) -> NewAuditEvent:
    subject = deed.subject if isinstance(deed.subject, str) else deed.subject(result)
    shown = list(deed.detail.items())[:MAX_DETAILS]
    return NewAuditEvent(
        at=now,
        actor=deed.actor,
        kind=deed.kind,
        act=deed.act,
        subject=subject[:MAX_SUBJECT_LENGTH],
        address=address,
        detail={key: "…" if key in UNSPOKEN else _say(value)[:MAX_DETAIL_LENGTH] for key, value in shown},
    )


def _say(value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, timedelta):
        return msg("{value} s", value=f"{value.total_seconds():g}")
    if isinstance(value, Mapping):
        return ", ".join(f"{key}: {_say(inner)}" for key, inner in value.items())
    if isinstance(value, list | tuple | set | frozenset):
        return ", ".join(_say(inner) for inner in (sorted(value) if isinstance(value, set | frozenset) else value))
    if is_dataclass(value) and not isinstance(value, type):
        return _say(given(value))
    return "–" if value in (None, "") else str(value)
