"""Device tokens: a browser or command line that has logged in keeps one and is throttled separately from then on.

A device token grants no access. It only shows that this user has logged in with this client, so that failed logins of
other clients, also from the same address, do not delay this one. It is signed for one user with a server key and the
mark of the user's password (see Tokens.load_password_fingerprint), so a new password invalidates it.
"""

from __future__ import annotations

import hmac
import re
import secrets
from collections.abc import Callable
from datetime import datetime, timedelta

from .login_throttle import BucketLimit, TokenBuckets

DEVICE_TOKEN_LIFETIME = timedelta(days=365)
MAX_TOKEN_LENGTH = 200
KEY_PURPOSE = b"login devices"
NEW_DEVICE_LIMIT = BucketLimit(burst=20, interval=180.0)  # of one user

_DEVICE_TOKEN_PATTERN = re.compile(r"([A-Za-z0-9_-]{16})\.([0-9]{1,12})\.([0-9a-f]{64})")


class LoginDevices:
    def __init__(
        self, derive: Callable[[bytes], bytes] | None, *, clock: Callable[[], datetime], monotonic: Callable[[], float]
    ) -> None:
        self._key = derive(KEY_PURPOSE) if derive else secrets.token_bytes(32)
        self._clock = clock
        self._new_device_buckets = TokenBuckets(NEW_DEVICE_LIMIT, monotonic)

    def issue_token(self, user: str, mark: str, previous: str = "") -> str:
        """Return a token for a client that has just logged in as `user`, for the same device as `previous`. Empty if
        the user has had too many new devices recently."""
        device = self.find_device(user, mark, previous) or self._create_device_id(user)
        issued = int(self._clock().timestamp())
        return f"{device}.{issued}.{self._sign_device(user, mark, device, issued)}" if device else ""

    def _create_device_id(self, user: str) -> str:
        if not self._new_device_buckets.has_token(user):
            return ""
        self._new_device_buckets.take_token(user)
        return secrets.token_urlsafe(12)

    def find_device(self, user: str, mark: str, token: str) -> str:
        """Return the id of the device with this token for `user`; empty if the token is invalid."""
        match = _DEVICE_TOKEN_PATTERN.fullmatch(token[: MAX_TOKEN_LENGTH + 1])
        if match is None:
            return ""
        device, issued, signature = match[1], int(match[2]), match[3]
        is_ours = hmac.compare_digest(signature, self._sign_device(user, mark, device, issued))
        expired = issued + DEVICE_TOKEN_LIFETIME.total_seconds() <= self._clock().timestamp()
        return device if is_ours and not expired else ""

    def _sign_device(self, user: str, mark: str, device: str, issued: int) -> str:
        message = f"{device}.{issued}.{mark}.{user}".encode("utf-8", "surrogatepass")
        return hmac.digest(self._key, message, "sha256").hex()
