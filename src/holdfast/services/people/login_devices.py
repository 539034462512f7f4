"""Device tokens: a browser or a command line that logged in before keeps one, and is throttled by itself from then on.

A device token gives no access. It only says "this user has logged in from here", so that failed logins elsewhere, also
those from the same address, do not hold up this client. It names one user, and is signed with a key of the server
and the mark of the user's password (see Tokens.password_mark): with a new password it ends.
"""

from __future__ import annotations

import hmac
import re
import secrets
from collections.abc import Callable
from datetime import datetime, timedelta

from .login_throttle import Buckets, Limit

LIFETIME = timedelta(days=365)
MAX_TOKEN_LENGTH = 200
KEY_PURPOSE = b"login devices"
NEW_DEVICES = Limit(burst=20, interval=180.0)  # of one user

_TOKEN = re.compile(r"([A-Za-z0-9_-]{16})\.([0-9]{1,12})\.([0-9a-f]{64})")


class LoginDevices:
    def __init__(
        self, derive: Callable[[bytes], bytes] | None, *, clock: Callable[[], datetime], monotonic: Callable[[], float]
    ) -> None:
        self._key = derive(KEY_PURPOSE) if derive else secrets.token_bytes(32)
        self._clock = clock
        self._new = Buckets(NEW_DEVICES, monotonic)

    def issue_token(self, user: str, mark: str, previous: str = "") -> str:
        """A token for a client that has just logged in as `user`; it stays the same device as with `previous`. Empty
        where the user has had too many new devices lately."""
        device = self.find_device(user, mark, previous) or self._new_device(user)
        issued = int(self._clock().timestamp())
        return f"{device}.{issued}.{self._sign(user, mark, device, issued)}" if device else ""

    def _new_device(self, user: str) -> str:
        if not self._new.has_token(user):
            return ""
        self._new.take_token(user)
        return secrets.token_urlsafe(12)

    def find_device(self, user: str, mark: str, token: str) -> str:
        """The id of the device that was given this token for `user`; empty where the token is not valid."""
        match = _TOKEN.fullmatch(token[: MAX_TOKEN_LENGTH + 1])
        if match is None:
            return ""
        device, issued, signature = match[1], int(match[2]), match[3]
        is_ours = hmac.compare_digest(signature, self._sign(user, mark, device, issued))
        expired = issued + LIFETIME.total_seconds() <= self._clock().timestamp()
        return device if is_ours and not expired else ""

    def _sign(self, user: str, mark: str, device: str, issued: int) -> str:
        message = f"{device}.{issued}.{mark}.{user}".encode("utf-8", "surrogatepass")
        return hmac.digest(self._key, message, "sha256").hex()
