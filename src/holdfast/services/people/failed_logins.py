"""Failed logins in the audit, rate-limited so that password guessing cannot fill the disk: the first from an address is
recorded at once, others are counted and recorded with a later one."""

from __future__ import annotations

import logging
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass

from holdfast.core.audit import AuditAction, AuditKind
from holdfast.store.errors import StoreError

from ..audit import AuditedStore, AuditEntry

log = logging.getLogger(__name__)

REPEAT_INTERVAL = 600.0  # seconds between two events of the same user and address
MAX_ENTRIES_PER_HOUR = 60  # events in all
SECONDS_PER_HOUR = 3600.0
MAX_LOGIN_SOURCES = 10_000  # pairs of user and address


@dataclass(slots=True)
class _LoginSource:
    recorded_at: float
    unrecorded: int = 0


class FailedLogins:
    def __init__(self, store: AuditedStore, monotonic: Callable[[], float]) -> None:
        self._store = store
        self._monotonic = monotonic
        self._sources: OrderedDict[tuple[str, str], _LoginSource] = OrderedDict()
        self._hour_began = -SECONDS_PER_HOUR
        self._recorded = 0  # in this hour
        self._skipped_count = 0  # since the last event

    async def record_failure(self, user: str | None, address: str) -> None:
        """Record a failed login. `user` None: not found; the typed name may be a password and is not stored."""
        unrecorded = self._count_failure((user or "", address))
        if unrecorded is None:
            return
        detail = {"more": unrecorded} if unrecorded else {}
        others, self._skipped_count = self._skipped_count, 0
        if others:
            detail["others"] = others
        try:
            await self._store.record_entry(AuditEntry("", AuditKind.LOGIN, AuditAction.FAILED, user or "", detail))
        except StoreError as error:  # the response to a wrong password is the same on a full disk
            log.warning("could not record a failed login", extra={"event": "audit", "error": str(error)})

    def _count_failure(self, key: tuple[str, str]) -> int | None:
        """Return how many earlier failures of this pair are unrecorded; None if this one is not recorded now."""
        now = self._monotonic()
        pair = self._sources.get(key)
        if pair is not None and now - pair.recorded_at < REPEAT_INTERVAL:
            pair.unrecorded += 1
            return None
        if not self._try_reserve_entry(now):
            self._skipped_count += 1
            return None
        self._sources[key] = _LoginSource(now)
        self._sources.move_to_end(key)
        while len(self._sources) > MAX_LOGIN_SOURCES:
            self._sources.popitem(last=False)
        return pair.unrecorded if pair else 0

    def _try_reserve_entry(self, now: float) -> bool:
        if now - self._hour_began >= SECONDS_PER_HOUR:
            self._hour_began, self._recorded = now, 0
        self._recorded += 1
        return self._recorded <= MAX_ENTRIES_PER_HOUR
