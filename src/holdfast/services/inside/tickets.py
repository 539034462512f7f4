"""Tickets: single-use credentials that let a page open one WebSocket into one job, valid for 30 seconds."""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Callable
from dataclasses import dataclass

from holdfast.core.access import Actor
from holdfast.core.errors import NotLoggedIn
from holdfast.core.messages import msg

from ..people.access_tokens import AccessTokens
from .service import TaskAccess

TICKET_LIFETIME = 30.0  # seconds
MAX_TICKETS = 10_000  # at a time; the oldest are evicted
MAX_TICKETS_PER_LOGIN = 100  # per login token


@dataclass(frozen=True, slots=True)
class _TicketRecord:
    token_id: str
    job_id: str
    until: float  # monotonic


@dataclass(frozen=True, slots=True)
class IssuedTicket:
    ticket: str
    job_id: str


@dataclass(frozen=True, slots=True)
class RedeemedTicket:
    actor: Actor
    token_id: str  # may be revoked later
    job_id: str


class Tickets:
    """In memory only."""

    def __init__(self, access: AccessTokens, entering: TaskAccess, *, monotonic: Callable[[], float]) -> None:
        self._access = access
        self._task_access = entering
        self._monotonic = monotonic
        self._issued: dict[bytes, _TicketRecord] = {}  # by the digest of the ticket

    async def issue(self, login: str, ref: str) -> IssuedTicket:
        """Issue a ticket for the user of this login, who must be able to open sessions in the job."""
        known = await self._access.resolve_token(login)
        entrance = await self._task_access.find_target(known.actor, ref)
        self._evict_tickets(known.token.id)
        ticket = secrets.token_urlsafe(32)
        self._issued[_hash_ticket(ticket)] = _TicketRecord(
            known.token.id, entrance.job.id, self._monotonic() + TICKET_LIFETIME
        )
        return IssuedTicket(ticket, entrance.job.id)

    async def redeem(self, ticket: str) -> RedeemedTicket:
        """Return the user and job of a ticket. NotLoggedIn if it has expired or was already used."""
        found = self._issued.pop(_hash_ticket(ticket), None)
        if found is None or found.until < self._monotonic():
            raise NotLoggedIn(msg("This ticket has expired or was already used"), hint=msg("Reload the page."))
        return RedeemedTicket(await self._access.resolve_actor_by_id(found.token_id), found.token_id, found.job_id)

    async def load_holder(self, admitted: RedeemedTicket) -> Actor:
        """Return the user with current permissions. NotLoggedIn if the login has ended."""
        return await self._access.resolve_actor_by_id(admitted.token_id)

    def _evict_tickets(self, token_id: str) -> None:
        """Delete expired tickets, then the oldest of the same login, then the oldest of all."""
        now = self._monotonic()
        self._issued = {key: each for key, each in self._issued.items() if each.until >= now}
        same = [key for key, each in self._issued.items() if each.token_id == token_id]
        for key in [
            *same[: max(0, len(same) - MAX_TICKETS_PER_LOGIN + 1)],
            *list(self._issued)[: len(self._issued) - MAX_TICKETS + 1],
        ]:
            self._issued.pop(key, None)


def _hash_ticket(ticket: str) -> bytes:
    return hashlib.sha256(ticket.encode("utf-8", "replace")).digest()
