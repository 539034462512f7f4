"""Passwords: hashed with argon2, checked in threads with fair, limited concurrency."""

from __future__ import annotations

import asyncio
import secrets
from contextlib import suppress

from argon2 import PasswordHasher
from argon2.exceptions import InvalidHashError, VerificationError

from holdfast.core.errors import UserError
from holdfast.core.messages import msg

from ..errors import TooManyRequests
from ..fair_limiter import FairLimiter

MIN_PASSWORD_LENGTH = 8
MAX_PASSWORD_SIZE = 1024  # bytes; a longer one only costs time
HASH_MEMORY_KIB = 19 * 1024
_COMMON_PASSWORDS = {
    "password", "password1", "password12", "password123", "passw0rd", "p@ssw0rd", "12345678", "123456789",
    "1234567890", "87654321", "qwertyui", "qwertyuiop", "qwerty123", "asdfghjk", "asdfghjkl", "1q2w3e4r", "1qaz2wsx",
    "abcdefgh", "abcd1234", "abc12345", "11223344", "12341234", "iloveyou", "changeme", "letmein1", "welcome1",
    "admin123", "admin1234", "administrator", "holdfast", "holdfast1",
}  # fmt: skip
MAX_CONCURRENT_CHECKS = 2  # each check costs a core and HASH_MEMORY_KIB
MAX_WAITING_CHECKS = 5  # of one user and client
WAIT_TIMEOUT = 10.0  # seconds
_UNKNOWN_USER = ""  # the key of all users that do not exist; not a valid user name


class Passwords:
    def __init__(self, *, memory_kib: int = HASH_MEMORY_KIB) -> None:
        self._hasher = PasswordHasher(time_cost=2, memory_cost=memory_kib, parallelism=1)
        self._limiter = FairLimiter(
            MAX_CONCURRENT_CHECKS,
            max_waiting=MAX_WAITING_CHECKS,
            timeout=WAIT_TIMEOUT,
            refuse=_build_too_many_logins_error,
        )
        self._dummy_hash: str | None = None

    async def hash_password(self, password: str, *, user: str) -> str:
        """Hash a password; raise TooManyRequests like `verify_password`."""
        async with self._limiter.use_slot(user):
            return await asyncio.to_thread(self._hasher.hash, password)

    async def verify_password(self, hashed: str | None, password: str, *, user: str, client: str = "") -> bool:
        """Check a password. Without a hash, do the same work: a login must not reveal which users exist.

        Users take turns, and so do the clients of one user. Raise TooManyRequests if too many checks of this user and
        client are waiting, or this one has waited too long.
        """
        if hashed is None:
            await self._verify_dummy_hash(password, client)
            return False
        async with self._limiter.use_slot(user, client):
            return await asyncio.to_thread(self._is_match, hashed, password)

    async def _verify_dummy_hash(self, password: str, client: str) -> None:
        """Spend the time of a real check; under load it is skipped, so that unknown users do not delay real ones."""
        with suppress(TooManyRequests):
            async with self._limiter.use_slot(_UNKNOWN_USER, client):
                if self._dummy_hash is None:
                    self._dummy_hash = await asyncio.to_thread(self._hasher.hash, secrets.token_hex(16))
                await asyncio.to_thread(self._is_match, self._dummy_hash, password)

    def _is_match(self, hashed: str, password: str) -> bool:
        try:
            return self._hasher.verify(hashed, password)
        except (VerificationError, InvalidHashError):
            return False


def _build_too_many_logins_error(_by_key: bool) -> TooManyRequests:
    return TooManyRequests(
        msg("Too many logins are in progress"), retry_after=WAIT_TIMEOUT, hint=msg("Try again in a moment.")
    )


def generate_password() -> str:
    """Return a random password that is easy to read and type (about 100 bits)."""
    letters = "abcdefghijkmnpqrstuvwxyz23456789"
    return "-".join("".join(secrets.choice(letters) for _ in range(5)) for _ in range(4))


def check_password(password: str, field: str = "password", *, user: str = "") -> None:
    if len(password) < MIN_PASSWORD_LENGTH:
        raise UserError(
            msg("A password must have at least {min_length} characters", min_length=MIN_PASSWORD_LENGTH), field=field
        )
    if len(password.encode("utf-8", "surrogatepass")) > MAX_PASSWORD_SIZE:
        raise UserError(
            msg("A password can have at most {max_length} bytes", max_length=MAX_PASSWORD_SIZE), field=field
        )
    if "\0" in password or not password.isprintable():
        raise UserError(msg("A password must not contain control characters"), field=field)
    plain = password.strip().lower()
    if len(set(plain)) < 2 or plain == user.lower() or plain in _COMMON_PASSWORDS:
        raise UserError(
            msg("This password is too easy to guess"), field=field, hint=msg("Choose a less common password.")
        )
