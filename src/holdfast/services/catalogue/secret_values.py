"""Validation of secret values. Errors never reveal the value or its length."""

from __future__ import annotations

import base64
import binascii
import re

from holdfast.core.catalogue import SecretKind
from holdfast.core.errors import TooLarge, UserError
from holdfast.core.messages import msg

MAX_VALUE_LENGTH = 65536  # bytes; four times the longest SSH keys

_PRIVATE_KEY_PATTERN = re.compile(
    r"-----BEGIN ([A-Z0-9]+ )*PRIVATE KEY-----\s(?P<body>.*)-----END ([A-Z0-9]+ )*PRIVATE KEY-----", re.S
)
_PUBLIC_KEY_PATTERN = re.compile(r"(ssh-|ecdsa-|sk-)[\w@.-]+ AAAA")
_OPENSSH_MAGIC = b"openssh-key-v1\0"


def check_secret_value(kind: SecretKind, value: str) -> None:
    _check_value_text(value)
    if kind is SecretKind.OPAQUE:
        _check_git_secret(value.strip())


def _check_value_text(value: str) -> None:
    if not value.strip():
        raise UserError(msg("The value is empty"), field="value")
    try:
        size = len(value.encode())
    except UnicodeEncodeError:
        raise UserError(msg("The value is not UTF-8 text"), field="value") from None
    if size > MAX_VALUE_LENGTH:
        raise TooLarge(
            msg("The value is longer than {max_value_length} bytes", max_value_length=MAX_VALUE_LENGTH), field="value"
        )
    if "\0" in value:
        raise UserError(msg("The value must not contain NUL characters"), field="value")


def _check_git_secret(value: str) -> None:
    """Accept a private SSH key without a passphrase, or a password."""
    key = _PRIVATE_KEY_PATTERN.fullmatch(value)
    if key is not None and _has_passphrase(value, key["body"]):
        raise UserError(
            msg("The private key has a passphrase, which is not supported"),
            field="value",
            hint=msg(
                "Create a separate key with `ssh-keygen -N ''`, or remove the passphrase with `ssh-keygen -p -N ''`."
            ),
        )
    if key is None and (len(value.splitlines()) > 1 or _PUBLIC_KEY_PATTERN.match(value)):
        what = (
            msg("is a public key")
            if _PUBLIC_KEY_PATTERN.match(value)
            else msg("has several lines but is not a private key")
        )
        hint = msg("Enter a private SSH key (from -----BEGIN to -----END), or a one-line password or token.")
        raise UserError(msg("The value {what}", what=what), field="value", hint=hint)


def _has_passphrase(value: str, body: str) -> bool:
    if "BEGIN ENCRYPTED" in value or "Proc-Type: 4,ENCRYPTED" in value:
        return True
    try:
        data = base64.b64decode("".join(body.split()), validate=True)
    except (binascii.Error, ValueError):
        return False  # another or an invalid format: ssh reports it
    rest = data.removeprefix(_OPENSSH_MAGIC)
    cipher = rest[4 : 4 + int.from_bytes(rest[:4])]
    return rest != data and cipher != b"none"
