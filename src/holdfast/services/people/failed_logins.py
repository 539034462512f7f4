"""Failed logins in the audit, without letting whoever guesses passwords fill the disk: the first from an address is
told at once, the others are counted and told with a later one."""

from __future__ import annotations

import logging
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass

from holdfast.core.audit import Act, AuditKind
from holdfast.store.errors import StoreError

from ..audit import AuditedStore, AuditEntry

log = logging.getLogger(__name__)

QUIET_FOR = 600.0  # seconds between two events of the same user and address
MAX_PER_HOUR = 60  # events in all
HOUR = 3600.0
REMEMBER = 10_000  # pairs of user and address


@dataclass(slots=True)
class _Pair:
    told_at: float
    untold: int = 0


class FailedLogins:
    def __init__(self, store: AuditedStore, monotonic: Callable[[], float]) -> None:
        self._store = store
        self._now = monotonic
        self._pairs: OrderedDict[tuple[str, str], _Pair] = OrderedDict()
        self._hour_began = -HOUR
        self._told = 0  # in this hour
        self._left_out = 0  # since the last event

    async def note(self, user: str | None, address: str) -> None:
        """`user` None: there is no such user; what was typed may be a password, and is not kept."""
        untold = self._count((user or "", address))
        if untold is None:
            return
        detail = {"more": untold} if untold else {}
        others, self._left_out = self._left_out, 0
        if others:
            detail["others"] = others
        deed = AuditEntry(actor="", kind=AuditKind.LOGIN, act=Act.FAILED, subject=user or "", detail=detail)
        try:
            await self._store.note(deed)
        except StoreError as error:  # the answer to a wrong password is the same on a full disk
            log.warning("could not note a failed login", extra={"event": "audit", "error": str(error)})

    def _count(self, key: tuple[str, str]) -> int | None:
        """How many of this pair were not told before this one, which is told now; None: it is not."""
        now = self._now()
        pair = self._pairs.get(key)
        if pair is not None and now - pair.told_at < QUIET_FOR:
            pair.untold += 1
            return None
        if not self._may_tell(now):
            self._left_out += 1
            return None
        self._pairs[key] = _Pair(now)
        self._pairs.move_to_end(key)
        while len(self._pairs) > REMEMBER:
            self._pairs.popitem(last=False)
        return pair.untold if pair else 0

    def _may_tell(self, now: float) -> bool:
        if now - self._hour_began >= HOUR:
            self._hour_began, self._told = now, 0
        self._told += 1
        return self._told <= MAX_PER_HOUR
