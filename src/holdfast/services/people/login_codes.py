"""Codes that stand for a login for a few minutes, and work once: a browser shows one, and a program elsewhere gets a
token for it; or a program makes one, and a browser is logged in by it."""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum

from holdfast.core.access import Actor
from holdfast.core.audit import Act, AuditKind
from holdfast.core.errors import Forbidden, NotLoggedIn
from holdfast.core.messages import msg

from ..audit import AuditedStore, AuditEntry
from .tokens import NewToken, Tokens

LASTS = 600.0  # seconds
MAX_COUNT = 1000  # at one time; of more, the oldest are gone
MAX_PER_USER = 5  # user, so that nobody can end the codes of all others


class Purpose(StrEnum):
    """A code is good for what it was made for, and nothing else."""

    TOKEN = "token"  # noqa: S105 - the word
    LOGIN = "login"


@dataclass(frozen=True, slots=True)
class _Open:
    user: str
    purpose: Purpose
    mark: str | None  # of the password it was given for
    until: float


class TokenCodes:
    """Kept in memory alone: after a restart people log in once more."""

    def __init__(self, store: AuditedStore, tokens: Tokens, *, monotonic: Callable[[], float]) -> None:
        self._store = store
        self._tokens = tokens
        self._monotonic = monotonic
        self._open: dict[bytes, _Open] = {}  # by the digest of the code

    async def issue(self, user: str, password: str, address: str, *, device: str = "") -> str:
        """A code for a token, for whoever knows the password; NotLoggedIn for others."""
        return await self._new(await self._tokens.verify(user, password, address, device=device), Purpose.TOKEN)

    async def issue_for(self, actor: Actor) -> str:
        """The same for whoever is logged in."""
        return await self._new(actor.name, Purpose.TOKEN)

    async def issue_login(self, actor: Actor) -> str:
        """A code by which a browser is logged in as whoever asks. Not for tokens of programs: they can do less than a
        person who is logged in, and are to stay that way."""
        if actor.application:
            raise Forbidden(msg("A token for programs logs no browser in"), hint=msg("Log in first: `holdfast login`."))
        code = await self._new(actor.name, Purpose.LOGIN)
        detail = {"by": msg("one-time link")}
        await self._store.note(
            AuditEntry(actor=actor.name, kind=AuditKind.LOGIN, act=Act.CREATED, subject=actor.name, detail=detail)
        )
        return code

    async def _new(self, user: str, purpose: Purpose) -> str:
        mark = await self._tokens.password_mark(user)
        self._make_room(user)
        code = secrets.token_urlsafe(24)
        self._open[_digest(code)] = _Open(user, purpose, mark, self._monotonic() + LASTS)
        return code

    def _make_room(self, user: str) -> None:
        own = [digest for digest, code in self._open.items() if code.user == user]
        for digest in own[: max(0, len(own) + 1 - MAX_PER_USER)]:
            del self._open[digest]
        while len(self._open) >= MAX_COUNT:
            del self._open[next(iter(self._open))]

    async def redeem(self, code: str, *, name: str) -> NewToken:
        """A token called `name`, once. A password that was changed since ends the code, as does all that keeps its user
        from logging in."""
        found = await self._take(code, Purpose.TOKEN)
        return await self._tokens.create(Actor(name=found.user), name=name)

    async def who(self, code: str) -> str:
        """Whom a code for a login logs in. It is not used up by asking."""
        found = self._open.get(_digest(code))
        if found is None or not await self._is_good(found, Purpose.LOGIN):
            raise _refusal()
        return found.user

    async def log_in(self, code: str) -> NewToken:
        """A login, once."""
        found = await self._take(code, Purpose.LOGIN)
        return await self._tokens.login_as(found.user, msg("one-time link"))

    async def _take(self, code: str, purpose: Purpose) -> _Open:
        digest = _digest(code)
        known = self._open.get(digest)
        if known is None or known.purpose is not purpose:
            raise _refusal()
        del self._open[digest]
        if not await self._is_good(known, purpose):
            raise _refusal()
        return known

    async def _is_good(self, code: _Open, purpose: Purpose) -> bool:
        if code.purpose is not purpose or self._monotonic() > code.until or code.mark is None:
            return False
        return await self._tokens.password_mark(code.user) == code.mark


def _refusal() -> NotLoggedIn:
    return NotLoggedIn(msg("This code is not right, or too old"), hint=msg("Log in again for another one."))


def _digest(code: str) -> bytes:
    return hashlib.sha256(code.encode("utf-8", "replace")).digest()
