"""Device tokens: a browser or a command line that logged in before keeps one, and is throttled by itself from then on.

A device token gives no access. It only says "this user has logged in from here", so that failed logins elsewhere, also
those from the same address, do not hold up this client. It names one user, and is signed with a key of the server.
"""

from __future__ import annotations

import hmac
import re
import secrets
from collections.abc import Callable
from datetime import datetime, timedelta

LIFETIME = timedelta(days=365)
MAX_TOKEN_LENGTH = 200
KEY_PURPOSE = b"login devices"

_TOKEN = re.compile(r"([A-Za-z0-9_-]{16})\.([0-9]{1,12})\.([0-9a-f]{64})")


class LoginDevices:
    def __init__(self, derive: Callable[[bytes], bytes] | None, *, clock: Callable[[], datetime]) -> None:
        self._key = derive(KEY_PURPOSE) if derive else secrets.token_bytes(32)
        self._clock = clock

    def issue_token(self, user: str, previous: str = "") -> str:
        """A token for a client that has just logged in as `user`; it stays the same device as with `previous`."""
        device = self.find_device(user, previous) or secrets.token_urlsafe(12)
        issued = int(self._clock().timestamp())
        return f"{device}.{issued}.{self._sign(user, device, issued)}"

    def find_device(self, user: str, token: str) -> str:
        """The id of the device that was given this token for `user`; empty where the token is not valid."""
        match = _TOKEN.fullmatch(token[: MAX_TOKEN_LENGTH + 1])
        if match is None:
            return ""
        device, issued, signature = match[1], int(match[2]), match[3]
        is_ours = hmac.compare_digest(signature, self._sign(user, device, issued))
        expired = issued + LIFETIME.total_seconds() <= self._clock().timestamp()
        return device if is_ours and not expired else ""

    def _sign(self, user: str, device: str, issued: int) -> str:
        message = f"{device}.{issued}.{user}".encode("utf-8", "surrogatepass")
        return hmac.digest(self._key, message, "sha256").hex()
