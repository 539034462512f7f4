"""Validation of names and free text."""

from __future__ import annotations

import re

from holdfast.core.errors import UserError
from holdfast.core.messages import mark_translatable, msg

MAX_NAME_LENGTH = 63
MAX_TEXT_LENGTH = 4096  # characters, like PATH_MAX
MAX_EMAIL_LENGTH = 320
_NAME_PATTERN = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
_USER_NAME_PATTERN = re.compile(r"[A-Za-z0-9][A-Za-z0-9._@-]*")
_DNS_NAME_PATTERN = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")
_RESERVED_NAMES = frozenset({"holdfast", "me"})  # the server in events; the current user in commands


def check_name(name: str, what: str, field: str = "name") -> None:
    """Check that a name is safe in URLs, file names and environment variables."""
    _validate_name(name, what, field, _NAME_PATTERN, msg("dots, dashes and underscores"))


def check_user_name(name: str, field: str = "name") -> None:
    """Check a user name, which can be an email address."""
    _validate_name(name, "user", field, _USER_NAME_PATTERN, msg("dots, dashes, underscores and @"))


def _validate_name(name: str, what: str, field: str, pattern: re.Pattern[str], signs: str) -> None:
    if len(name) > MAX_NAME_LENGTH or not pattern.fullmatch(name):
        raise UserError(
            msg("{name} is not a valid name for a {what}", name=repr(name[:80]), what=mark_translatable(what)),
            field=field,
            hint=msg(
                "Use up to {max_length} letters, digits, {characters}. Start with a letter or digit.",
                max_length=MAX_NAME_LENGTH,
                characters=signs,
            ),
        )
    if name.lower() in _RESERVED_NAMES:
        raise UserError(
            msg("The name {name} is reserved", name=name), field=field, hint=msg("Choose a name that is not reserved.")
        )


def check_dns_name(name: str, what: str, field: str = "name") -> None:
    """Check a name by PrimeHub's rule for instance types and images: a DNS name."""
    if len(name) > MAX_NAME_LENGTH or not _DNS_NAME_PATTERN.fullmatch(name):
        raise UserError(
            msg("{name} is not a valid name for {what}", name=repr(name[:80]), what=what),
            field=field,
            hint=msg(
                "Use up to {max_length} lowercase letters, digits, dashes and dots."
                " Start and end with a letter or digit.",
                max_length=MAX_NAME_LENGTH,
            ),
        )


def check_text(text: str, field: str, *, longest: int = MAX_TEXT_LENGTH) -> None:
    _check_length(text, field, longest)
    if text and not text.isprintable():
        raise UserError(msg("{field} must not contain control characters", field=field), field=field)


def check_multiline_text(text: str, field: str) -> None:
    _check_length(text, field, MAX_TEXT_LENGTH)
    check_text(text.replace("\r\n", "").replace("\n", "").replace("\t", ""), field)


def is_utf8(text: str) -> bool:
    """Return whether a text can be encoded: Python decodes other bytes as surrogates."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _check_length(text: str, field: str, longest: int) -> None:
    if len(text) > longest:
        raise UserError(
            msg(
                "{field} can have at most {max_length} characters; this value has {text}",
                field=field,
                max_length=longest,
                text=len(text),
            ),
            field=field,
        )
