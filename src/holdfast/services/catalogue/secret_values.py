"""What the value of a secret may be. In no case is it said what the value is, or how long."""

from __future__ import annotations

import base64
import binascii
import re

from holdfast.core.catalogue import SecretKind
from holdfast.core.errors import TooLarge, UserError
from holdfast.core.messages import msg

MAX_VALUE_LENGTH = 65536  # bytes; the longest SSH keys have a quarter of that

_KEY = re.compile(r"-----BEGIN ([A-Z0-9]+ )*PRIVATE KEY-----\s(?P<body>.*)-----END ([A-Z0-9]+ )*PRIVATE KEY-----", re.S)
_PUBLIC = re.compile(r"(ssh-|ecdsa-|sk-)[\w@.-]+ AAAA")
_OPENSSH = b"openssh-key-v1\0"


def check_value(kind: SecretKind, value: str) -> None:
    _check_text(value)
    if kind is SecretKind.OPAQUE:
        _check_git(value.strip())


def _check_text(value: str) -> None:
    if not value.strip():
        raise UserError(msg("The value is empty"), field="value")
    try:
        size = len(value.encode())
    except UnicodeEncodeError:
        raise UserError(msg("The value is not UTF-8 text"), field="value") from None
    if size > MAX_VALUE_LENGTH:
        raise TooLarge(
            msg("The value has more than {longest_value} bytes", longest_value=MAX_VALUE_LENGTH), field="value"
        )
    if "\0" in value:
        raise UserError(msg("The value may not hold NUL characters"), field="value")


def _check_git(value: str) -> None:
    """A private SSH key that can be used with nobody there to unlock it, or a password."""
    key = _KEY.fullmatch(value)
    if key is not None and _is_locked(value, key["body"]):
        raise UserError(
            msg("The private key has a passphrase, and nobody is there to type it"),
            field="value",
            hint=msg(
                "Make a key of its own for this with `ssh-keygen -N ''`, or take it off with `ssh-keygen -p -N ''`."
            ),
        )
    if key is None and (len(value.splitlines()) > 1 or _PUBLIC.match(value)):
        what = msg("is a public key") if _PUBLIC.match(value) else msg("has several lines, and is no private key")
        hint = msg("Give a private SSH key (from -----BEGIN to -----END), or a password or token on one line.")
        raise UserError(msg("The value {what}", what=what), field="value", hint=hint)


def _is_locked(value: str, body: str) -> bool:
    if "BEGIN ENCRYPTED" in value or "Proc-Type: 4,ENCRYPTED" in value:
        return True
    try:
        data = base64.b64decode("".join(body.split()), validate=True)
    except (binascii.Error, ValueError):
        return False  # another format, or none: ssh will say so
    rest = data.removeprefix(_OPENSSH)
    cipher = rest[4 : 4 + int.from_bytes(rest[:4])]
    return rest != data and cipher != b"none"
