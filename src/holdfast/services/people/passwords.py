"""Passwords: argon2 at rest, checked in threads, a few at a time, in turns."""

from __future__ import annotations

import asyncio
import secrets
from contextlib import suppress

from argon2 import PasswordHasher
from argon2.exceptions import InvalidHashError, VerificationError

from holdfast.core.errors import UserError
from holdfast.core.messages import msg

from ..fair_limiter import FairLimiter
from ..refusals import TooManyRequests

MIN_LENGTH = 8
MAX_LENGTH = 1024  # bytes; a longer one only costs us time
MEMORY_KIB = 19 * 1024
_TRIED_FIRST = {
    "password", "password1", "password12", "password123", "passw0rd", "p@ssw0rd", "12345678", "123456789",
    "1234567890", "87654321", "qwertyui", "qwertyuiop", "qwerty123", "asdfghjk", "asdfghjkl", "1q2w3e4r", "1qaz2wsx",
    "abcdefgh", "abcd1234", "abc12345", "11223344", "12341234", "iloveyou", "changeme", "letmein1", "welcome1",
    "admin123", "admin1234", "administrator", "holdfast", "holdfast1",
}  # fmt: skip
MAX_CHECKS = 2  # at a time; each check costs a core and MEMORY_KIB
MAX_WAITING = 5  # of one user and client
WAIT_TIMEOUT = 10.0  # seconds
_MADE_UP = ""  # the key of all users that do not exist; no user is called so


class Passwords:
    def __init__(self, *, memory_kib: int = MEMORY_KIB) -> None:
        self._hasher = PasswordHasher(time_cost=2, memory_cost=memory_kib, parallelism=1)
        self._limiter = FairLimiter(MAX_CHECKS, max_waiting=MAX_WAITING, timeout=WAIT_TIMEOUT, refuse=_refuse)
        self._nobody: str | None = None

    async def hash(self, password: str, *, user: str) -> str:
        """TooManyRequests as for `verify`."""
        async with self._limiter.slot(user):
            return await asyncio.to_thread(self._hasher.hash, password)

    async def verify(self, hashed: str | None, password: str, *, user: str, client: str = "") -> bool:
        """False also without a hash, after the same work: a login must not tell which users exist.

        Users take turns, and so do the clients of one user. TooManyRequests when too many checks of this user and
        client are waiting, or this one has waited for too long.
        """
        if hashed is None:
            await self._verify_made_up(password, client)
            return False
        async with self._limiter.slot(user, client):
            return await asyncio.to_thread(self._matches, hashed, password)

    async def _verify_made_up(self, password: str, client: str) -> None:
        """Only for its duration, so a flood of made-up users skips it rather than taking turns with real ones."""
        with suppress(TooManyRequests):
            async with self._limiter.slot(_MADE_UP, client):
                if self._nobody is None:
                    self._nobody = await asyncio.to_thread(self._hasher.hash, secrets.token_hex(16))
                await asyncio.to_thread(self._matches, self._nobody, password)

    def _matches(self, hashed: str, password: str) -> bool:
        try:
            return self._hasher.verify(hashed, password)
        except (VerificationError, InvalidHashError):
            return False


def _refuse(_by_key: bool) -> TooManyRequests:
    return TooManyRequests(
        msg("Too many logins are in progress"), retry_after=WAIT_TIMEOUT, hint=msg("Try again in a moment.")
    )


def generate_password() -> str:
    """Easy to read and to type, too long to guess (about 100 bits)."""
    letters = "abcdefghijkmnpqrstuvwxyz23456789"
    return "-".join("".join(secrets.choice(letters) for _ in range(5)) for _ in range(4))


def check_password(password: str, field: str = "password", *, user: str = "") -> None:
    """Refuse a password that should not be used."""
    if len(password) < MIN_LENGTH:
        raise UserError(msg("A password needs at least {min_length} characters", min_length=MIN_LENGTH), field=field)
    if len(password.encode("utf-8", "surrogatepass")) > MAX_LENGTH:
        raise UserError(msg("A password may have at most {max_length} bytes", max_length=MAX_LENGTH), field=field)
    if "\0" in password or not password.isprintable():
        raise UserError(msg("A password may not hold control characters"), field=field)
    plain = password.strip().lower()
    if len(set(plain)) < 2 or plain == user.lower() or plain in _TRIED_FIRST:
        raise UserError(
            msg("This password would be among the first to be tried"), field=field, hint=msg("Choose another one.")
        )
