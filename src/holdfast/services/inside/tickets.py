"""Tickets: what a page may show instead of its login to open one line into one job. Good once, for half a minute."""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Callable
from dataclasses import dataclass

from holdfast.core.access import Actor
from holdfast.core.errors import NotLoggedIn
from holdfast.core.messages import msg

from ..people.access_tokens import AccessTokens
from .service import Entering

LASTS = 30.0  # seconds
MAX_COUNT = 10_000  # at one time; of more, the oldest are gone
MAX_PER_USER = 100  # token


@dataclass(frozen=True, slots=True)
class _Issued:
    token_id: str
    job_id: str
    until: float  # by the monotonic clock


@dataclass(frozen=True, slots=True)
class Issued:
    ticket: str
    job_id: str


@dataclass(frozen=True, slots=True)
class Admitted:
    actor: Actor
    token_id: str  # ask `holder` whether it still holds
    job_id: str


class Tickets:
    """Kept in memory alone."""

    def __init__(self, access: AccessTokens, entering: Entering, *, monotonic: Callable[[], float]) -> None:
        self._access = access
        self._entering = entering
        self._monotonic = monotonic
        self._issued: dict[bytes, _Issued] = {}  # by the digest of the ticket

    async def issue(self, login: str, ref: str) -> Issued:
        """For whoever is logged in by this token and may enter that job now."""
        known = await self._access.known(login)
        entrance = await self._entering.find(known.actor, ref)
        self._make_room(known.token.id)
        ticket = secrets.token_urlsafe(32)
        self._issued[_digest(ticket)] = _Issued(known.token.id, entrance.job.id, self._monotonic() + LASTS)
        return Issued(ticket, entrance.job.id)

    async def redeem(self, ticket: str) -> Admitted:
        """Who shows it, and for which job; NotLoggedIn when it was shown before or is too old."""
        found = self._issued.pop(_digest(ticket), None)
        if found is None or found.until < self._monotonic():
            raise NotLoggedIn(msg("This ticket is not valid any more"), hint=msg("Load the page again."))
        return Admitted(await self._access.holder(found.token_id), found.token_id, found.job_id)

    async def holder(self, admitted: Admitted) -> Actor:
        """Who that is by now; NotLoggedIn once the login it was issued for is not good any more."""
        return await self._access.holder(admitted.token_id)

    def _make_room(self, token_id: str) -> None:
        """What is over goes, then the oldest of the same login, then the oldest of all."""
        now = self._monotonic()
        self._issued = {key: each for key, each in self._issued.items() if each.until >= now}
        same = [key for key, each in self._issued.items() if each.token_id == token_id]
        for key in [
            *same[: max(0, len(same) - MAX_PER_USER + 1)],
            *list(self._issued)[: len(self._issued) - MAX_COUNT + 1],
        ]:
            self._issued.pop(key, None)


def _digest(ticket: str) -> bytes:
    return hashlib.sha256(ticket.encode("utf-8", "replace")).digest()
