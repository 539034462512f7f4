"""What users, groups and free texts may be called."""

from __future__ import annotations

import re

from holdfast.core.errors import UserError
from holdfast.core.messages import msg, noun

MAX_LENGTH = 63
MAX_TEXT_LENGTH = 4096  # characters; as long as a path may be
MAX_EMAIL_LENGTH = 320
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
_USER_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._@-]*")
_DNS_NAME = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")
_RESERVED = frozenset({"holdfast", "me"})  # the platform itself in events; oneself in commands


def check_name(name: str, what: str, field: str = "name") -> None:
    """A name that is safe in addresses, file names and environment variables."""
    _check(name, what, field, _NAME, msg("dots, dashes and underscores"))


def check_user_name(name: str, field: str = "name") -> None:
    """As safe. Many people are known by their email address."""
    _check(name, "user", field, _USER_NAME, msg("dots, dashes, underscores and @"))


def _check(name: str, what: str, field: str, pattern: re.Pattern[str], signs: str) -> None:
    if len(name) > MAX_LENGTH or not pattern.fullmatch(name):
        raise UserError(
            msg("{name} cannot be the name of a {what}", name=repr(name[:80]), what=noun(what)),
            field=field,
            hint=msg(
                "Use up to {longest} letters, digits, {signs}, a letter or digit first.",
                longest=MAX_LENGTH,
                signs=signs,
            ),
        )
    if name.lower() in _RESERVED:
        raise UserError(msg("The name {name} is reserved", name=name), field=field, hint=msg("Choose another one."))


def check_dns_name(name: str, what: str, field: str = "name") -> None:
    """What PrimeHub lets sizes and images be called: names that could be those of machines."""
    if len(name) > MAX_LENGTH or not _DNS_NAME.fullmatch(name):
        raise UserError(
            msg("{name} cannot be the name of {what}", name=repr(name[:80]), what=what),
            field=field,
            hint=msg(
                "Use up to {longest} small letters, digits, dashes and dots, a letter or digit at both ends.",
                longest=MAX_LENGTH,
            ),
        )


def check_text(text: str, field: str, *, longest: int = MAX_TEXT_LENGTH) -> None:
    """Free text on one line."""
    _check_length(text, field, longest)
    if text and not text.isprintable():
        raise UserError(msg("{field} may not hold control characters", field=field), field=field)


def check_prose(text: str, field: str) -> None:
    """Free text on several lines."""
    _check_length(text, field, MAX_TEXT_LENGTH)
    check_text(text.replace("\r\n", "").replace("\n", "").replace("\t", ""), field)


def _check_length(text: str, field: str, longest: int) -> None:
    if len(text) > longest:
        raise UserError(
            msg(
                "{field} may have at most {longest} characters, this one has {text}",
                field=field,
                longest=longest,
                text=len(text),
            ),
            field=field,
        )
