"""Links to one task's log that need no login: signed, and good for a short while only.

The key lives as long as the server. A link of the server before does not open, which clients take as one that is over:
they ask for another.
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

MAX_LENGTH = 1000  # characters of a link


@dataclass(frozen=True, slots=True)
class Linked:
    """The try of a task whose log a link opens, and who made the link."""

    job_id: str
    attempt: int
    task: str
    number: int
    token_id: str = ""  # that the maker was logged in with; empty: a guest


class LogLinks:
    def __init__(self, seconds: float, *, clock: Callable[[], datetime]) -> None:
        self._seconds = seconds
        self._clock = clock
        self._key = secrets.token_bytes(32)

    def make(self, linked: Linked) -> str:
        """Made of letters, digits and - _ . only."""
        until = self._clock().timestamp() + self._seconds
        fields = [linked.job_id, linked.attempt, linked.task, linked.number, linked.token_id, until]
        content = json.dumps(fields).encode()
        return f"{_encode(content)}.{_encode(self._sign(content))}"

    def open(self, link: str) -> Linked:
        """Forbidden when it is over, or not from here."""
        content, signature = (_decode(part) for part in link[:MAX_LENGTH].partition(".")[::2])
        if not hmac.compare_digest(signature, self._sign(content)):
            raise Forbidden(msg("This link to a log is not one of ours"), hint=msg("Ask for the list of logs again."))
        job_id, attempt, task, number, token_id, until = json.loads(content)
        if self._clock().timestamp() >= until:
            raise Forbidden(msg("This log link has expired"), hint=msg("Ask for the list of logs again."))
        return Linked(job_id, attempt, task, number, token_id)

    def _sign(self, content: bytes) -> bytes:
        return hmac.new(self._key, content, hashlib.sha256).digest()


def _encode(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def _decode(text: str) -> bytes:
    """Nothing for what is not ours: it then fits no signature."""
    try:
        return base64.b64decode(text.encode() + b"=" * (-len(text) % 4), altchars=b"-_", validate=True)
    except (binascii.Error, ValueError):
        return b""
