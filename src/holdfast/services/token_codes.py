"""Codes that stand for a login for a few minutes: a browser shows one, and a program elsewhere gets a token for it."""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Callable
from dataclasses import dataclass

from holdfast.core.access import Actor
from holdfast.core.errors import NotLoggedIn

from .tokens import NewToken, Tokens

LASTS = 600.0  # seconds
MOST = 1000  # at one time; of more, the oldest are gone
MOST_OF_ONE = 5  # user, so that nobody can end the codes of all others


@dataclass(frozen=True, slots=True)
class _Open:
    user: str
    mark: str | None  # of the password it was given for
    until: float


class TokenCodes:
    """Kept in memory alone: after a restart people log in once more."""

    def __init__(self, tokens: Tokens, *, monotonic: Callable[[], float]) -> None:
        self._tokens = tokens
        self._monotonic = monotonic
        self._open: dict[bytes, _Open] = {}  # by the digest of the code

    async def issue(self, user: str, password: str, address: str) -> str:
        """A code for whoever knows the password; NotLoggedIn for others."""
        name = await self._tokens.verify(user, password, address)
        mark = await self._tokens.password_mark(name)
        self._make_room(name)
        code = secrets.token_urlsafe(24)
        self._open[_digest(code)] = _Open(name, mark, self._monotonic() + LASTS)
        return code

    def _make_room(self, user: str) -> None:
        own = [digest for digest, code in self._open.items() if code.user == user]
        for digest in own[: max(0, len(own) + 1 - MOST_OF_ONE)]:
            del self._open[digest]
        while len(self._open) >= MOST:
            del self._open[next(iter(self._open))]

    async def redeem(self, code: str, *, name: str) -> NewToken:
        """A token called `name`, once. A password that was changed since ends the code, as does all that keeps its user
        from logging in."""
        found = self._open.pop(_digest(code), None)
        if found is None or self._monotonic() > found.until or not await self._is_good(found):
            raise NotLoggedIn("This code is not right, or too old", hint="Log in again for another one.")
        return await self._tokens.create(Actor(name=found.user), name=name)

    async def _is_good(self, code: _Open) -> bool:
        return code.mark is not None and await self._tokens.password_mark(code.user) == code.mark


def _digest(code: str) -> bytes:
    return hashlib.sha256(code.encode("utf-8", "replace")).digest()
