"""Signed, short-lived links to one task's log that need no login.

The key is created at startup. Links from before a restart are denied like expired ones, and clients request new ones.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import json
import secrets
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime

from holdfast.core.errors import Forbidden
from holdfast.core.messages import msg

MAX_LINK_LENGTH = 1000  # characters of a link


@dataclass(frozen=True, slots=True)
class LinkTarget:
    """The task try that a link gives access to, and the login that created the link."""

    job_id: str
    attempt: int
    task: str
    number: int
    token_id: str = ""  # of the login that created the link; empty: a guest


class LogLinks:
    def __init__(self, seconds: float, *, clock: Callable[[], datetime]) -> None:
        self._seconds = seconds
        self._clock = clock
        self._key = secrets.token_bytes(32)

    def create_link(self, linked: LinkTarget) -> str:
        """Create a link of letters, digits and - _ . only."""
        until = self._clock().timestamp() + self._seconds
        fields = [linked.job_id, linked.attempt, linked.task, linked.number, linked.token_id, until]
        content = json.dumps(fields).encode()
        return f"{_encode_base64(content)}.{_encode_base64(self._sign_content(content))}"

    def resolve_link(self, link: str) -> LinkTarget:
        """Return the target of a link. Forbidden if it has expired or its signature is not valid."""
        content, signature = (_decode_base64(part) for part in link[:MAX_LINK_LENGTH].partition(".")[::2])
        if not hmac.compare_digest(signature, self._sign_content(content)):
            raise Forbidden(msg("This log link is not valid"), hint=msg("Request the list of logs again."))
        job_id, attempt, task, number, token_id, until = json.loads(content)
        if self._clock().timestamp() >= until:
            raise Forbidden(msg("This log link has expired"), hint=msg("Request the list of logs again."))
        return LinkTarget(job_id, attempt, task, number, token_id)

    def _sign_content(self, content: bytes) -> bytes:
        return hmac.new(self._key, content, hashlib.sha256).digest()


def _encode_base64(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def _decode_base64(text: str) -> bytes:
    """Decode base64; empty if not valid, which matches no signature."""
    try:
        return base64.b64decode(text.encode() + b"=" * (-len(text) % 4), altchars=b"-_", validate=True)
    except (binascii.Error, ValueError):
        return b""
