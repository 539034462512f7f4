"""Audit log: who changed what in the installation, when and from where.

Services that change it write through `AuditedStore`, which saves a change and its audit entry in one transaction.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextvars import ContextVar
from dataclasses import MISSING, Field, dataclass, field, fields, is_dataclass
from datetime import datetime, timedelta
from typing import Any, Concatenate, ParamSpec, TypeVar

from sqlalchemy import Connection

from holdfast.core.access import Actor
from holdfast.core.audit import AuditAction, AuditKind, AuditPage, AuditQuery, NewAuditEvent
from holdfast.core.errors import UserError
from holdfast.core.holds import format_duration_in_words
from holdfast.core.messages import msg
from holdfast.store import audit as audit_rows
from holdfast.store.database import Store

from .permissions import require_admin

P = ParamSpec("P")
T = TypeVar("T")

MAX_LISTED = 500
MAX_DETAILS = 20
MAX_DETAIL_LENGTH = 300
MAX_SUBJECT_LENGTH = 300
BATCH_SIZE = 1000
# Fields whose values are not logged: secrets and opaque data of clients.
REDACTED_FIELDS = frozenset({"password", "value", "variables", "extension", "data"})
OMITTED_FIELDS = frozenset({"name", "replace_extension", "created_at"})  # logged as the subject, or irrelevant
CLIENT_ADDRESS: ContextVar[str] = ContextVar("client_address", default="")  # of the current request


@dataclass(frozen=True, slots=True)
class AuditEntry:
    """A change that is about to be made."""

    actor: str
    kind: AuditKind
    act: AuditAction
    subject: str | Callable[[Any], str]  # or computed from the result of the write
    detail: Mapping[str, Any] = field(default_factory=dict)


class AuditedStore:
    """A store that records an audit entry for every change."""

    def __init__(self, store: Store, *, clock: Callable[[], datetime]) -> None:
        self.unaudited_store = store
        self._clock = clock

    async def read(self, fn: Callable[Concatenate[Connection, P], T], /, *args: P.args, **kwargs: P.kwargs) -> T:
        return await self.unaudited_store.read(fn, *args, **kwargs)

    async def write(
        self, entry: AuditEntry, fn: Callable[Concatenate[Connection, P], T], /, *args: P.args, **kwargs: P.kwargs
    ) -> T:
        """Run Store.write with the audit entry in the same transaction. If `fn` raises, neither is saved."""
        now, address = self._clock(), CLIENT_ADDRESS.get()

        def write_change_and_entry(conn: Connection) -> T:
            result = fn(conn, *args, **kwargs)
            audit_rows.insert_audit_entry(conn, _build_event(entry, result, now, address))
            return result

        return await self.unaudited_store.write(write_change_and_entry)

    async def write_unaudited(
        self, fn: Callable[Concatenate[Connection, P], T], /, *args: P.args, **kwargs: P.kwargs
    ) -> T:
        """Write without an audit entry; for changes that no user made, such as counters."""
        return await self.unaudited_store.write(fn, *args, **kwargs)

    async def record_entry(self, entry: AuditEntry) -> None:
        """Record a change outside the store, or a failed one."""
        await self.unaudited_store.write(
            audit_rows.insert_audit_entry, _build_event(entry, None, self._clock(), CLIENT_ADDRESS.get())
        )


class AuditLog:
    """Reads the audit log and deletes old entries."""

    def __init__(self, store: Store, keep: timedelta | None, *, clock: Callable[[], datetime]) -> None:
        self._store = store
        self._retention = keep  # None: forever
        self._clock = clock

    async def list(self, actor: Actor, query: AuditQuery | None = None) -> AuditPage:
        """List entries, newest first. Only for admins."""
        require_admin(actor, msg("Only admins can read the audit log"))
        query = query or AuditQuery()
        if not 1 <= query.limit <= MAX_LISTED:
            raise UserError(msg("limit must be between 1 and {max_listed}", max_listed=MAX_LISTED), field="limit")
        return await self._store.read(audit_rows.list_audit_entries, query)

    async def delete_expired(self) -> int:
        removed = 0
        while self._retention is not None:
            done = await self._store.write(audit_rows.delete_audit_entries, self._clock() - self._retention, BATCH_SIZE)
            removed += done
            if done < BATCH_SIZE:
                break
        return removed


def collect_set_fields(change: Any) -> dict[str, Any]:
    """Return the fields of a change that differ from their defaults."""
    values = {each.name: getattr(change, each.name) for each in fields(change) if not _is_default(change, each)}
    return {key: value for key, value in values.items() if key not in OMITTED_FIELDS}


def _is_default(change: Any, field: Field[Any]) -> bool:
    default = field.default if field.default_factory is MISSING else field.default_factory()
    return bool(getattr(change, field.name) == default)


def _build_event(entry: AuditEntry, result: Any, now: datetime, address: str) -> NewAuditEvent:
    subject = entry.subject if isinstance(entry.subject, str) else entry.subject(result)
    shown = list(entry.detail.items())[:MAX_DETAILS]
    return NewAuditEvent(
        at=now,
        actor=entry.actor,
        kind=entry.kind,
        act=entry.act,
        subject=subject[:MAX_SUBJECT_LENGTH],
        address=address,
        detail={
            key: "…" if key in REDACTED_FIELDS else _format_value(value)[:MAX_DETAIL_LENGTH] for key, value in shown
        },
    )


def _format_value(value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, timedelta):
        return format_duration_in_words(value)
    if isinstance(value, Mapping):
        return ", ".join(f"{key}: {_format_value(inner)}" for key, inner in value.items())
    if isinstance(value, list | tuple | set | frozenset):
        return ", ".join(
            _format_value(inner) for inner in (sorted(value) if isinstance(value, set | frozenset) else value)
        )
    if is_dataclass(value) and not isinstance(value, type):
        return _format_value(collect_set_fields(value))
    return "–" if value in (None, "") else str(value)
