"""Codes that stand for a login for a few minutes: a browser shows one, and a program elsewhere gets a token for it."""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Callable

from holdfast.core.access import Actor
from holdfast.core.errors import NotLoggedIn

from .tokens import NewToken, Tokens

LASTS = 600.0  # seconds
MOST = 1000  # at one time; of more, the oldest are gone


class TokenCodes:
    """Kept in memory alone: after a restart people log in once more."""

    def __init__(self, tokens: Tokens, *, monotonic: Callable[[], float]) -> None:
        self._tokens = tokens
        self._monotonic = monotonic
        self._open: dict[bytes, tuple[str, float]] = {}  # of a code -> whose, and until when

    async def issue(self, user: str, password: str, address: str) -> str:
        """A code for whoever knows the password; NotLoggedIn for others."""
        name = await self._tokens.verify(user, password, address)
        while len(self._open) >= MOST:
            del self._open[next(iter(self._open))]
        code = secrets.token_urlsafe(24)
        self._open[_digest(code)] = (name, self._monotonic() + LASTS)
        return code

    async def redeem(self, code: str, *, name: str) -> NewToken:
        """A token called `name`, once."""
        user, until = self._open.pop(_digest(code), ("", 0.0))
        if not user or self._monotonic() > until:
            raise NotLoggedIn("This code is not right, or too old", hint="Log in again for another one.")
        return await self._tokens.create(Actor(name=user), name=name)


def _digest(code: str) -> bytes:
    return hashlib.sha256(code.encode("utf-8", "replace")).digest()
