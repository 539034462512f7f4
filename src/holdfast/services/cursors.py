"""Where a list goes on, as a text that tells its reader nothing.

A position in a table is a number that counts rows of all groups. A cursor holds it encrypted and signed, so that it
neither tells how many there are nor can be made up.
"""

from __future__ import annotations

import base64
import binascii
import hmac
import secrets

from holdfast.core.errors import UserError
from holdfast.core.messages import msg

_SIZE = 8  # bytes, of the signature and of the position


class Cursors:
    def __init__(self, key: bytes | None = None) -> None:
        """Without a key, cursors are good as long as this server runs."""
        self._key = key or secrets.token_bytes(32)

    def seal(self, position: int) -> str:
        """Deterministic: the same position is the same text."""
        plain = position.to_bytes(_SIZE)
        tag = self._digest(b"tag" + plain)
        return base64.urlsafe_b64encode(tag + _xor(plain, self._digest(b"pad" + tag))).decode().rstrip("=")

    def open(self, cursor: str) -> int:
        try:
            sealed = base64.b64decode(cursor.encode() + b"=" * (-len(cursor) % 4), altchars=b"-_", validate=True)
        except (binascii.Error, ValueError):
            sealed = b""
        tag, hidden = sealed[:_SIZE], sealed[_SIZE:]
        plain = _xor(hidden, self._digest(b"pad" + tag)) if len(hidden) == _SIZE else b""
        if not hmac.compare_digest(tag, self._digest(b"tag" + plain)):
            raise UserError(
                msg("This page does not exist"), field="cursor", hint=msg("Start again from the first page.")
            )
        return int.from_bytes(plain)

    def _digest(self, text: bytes) -> bytes:
        return hmac.digest(self._key, text, "sha256")[:_SIZE]


def _xor(one: bytes, other: bytes) -> bytes:
    return bytes(a ^ b for a, b in zip(one, other, strict=True))
