"""Opaque page cursors.

A position in a table counts rows of all groups. A cursor contains it encrypted and signed, so that it neither reveals
the number of rows nor can be forged.
"""

from __future__ import annotations

import base64
import binascii
import hmac
import secrets

from holdfast.core.errors import UserError
from holdfast.core.messages import msg

_FIELD_SIZE = 8  # bytes, of the signature and of the position


class CursorCodec:
    def __init__(self, key: bytes | None = None) -> None:
        """Without a key, cursors are valid only while this server runs."""
        self._key = key or secrets.token_bytes(32)

    def encode_cursor(self, position: int) -> str:
        """Encode a position, deterministically."""
        plain = position.to_bytes(_FIELD_SIZE)
        tag = self._compute_digest(b"tag" + plain)
        return (
            base64.urlsafe_b64encode(tag + _xor_bytes(plain, self._compute_digest(b"pad" + tag))).decode().rstrip("=")
        )

    def decode_cursor(self, cursor: str) -> int:
        try:
            sealed = base64.b64decode(cursor.encode() + b"=" * (-len(cursor) % 4), altchars=b"-_", validate=True)
        except (binascii.Error, ValueError):
            sealed = b""
        tag, hidden = sealed[:_FIELD_SIZE], sealed[_FIELD_SIZE:]
        plain = _xor_bytes(hidden, self._compute_digest(b"pad" + tag)) if len(hidden) == _FIELD_SIZE else b""
        if not hmac.compare_digest(tag, self._compute_digest(b"tag" + plain)):
            raise UserError(
                msg("This page cursor is not valid"), field="cursor", hint=msg("Start again from the first page.")
            )
        return int.from_bytes(plain)

    def _compute_digest(self, text: bytes) -> bytes:
        return hmac.digest(self._key, text, "sha256")[:_FIELD_SIZE]


def _xor_bytes(one: bytes, other: bytes) -> bytes:
    return bytes(a ^ b for a, b in zip(one, other, strict=True))
