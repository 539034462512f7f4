"""Values of unquoted YAML words: the YAML 1.2 core schema.

So `yes`, `off` and `1:30` are text, and 010 is ten. Infinity and "not a number" are left as text: JSON has neither.
"""

from __future__ import annotations

import math
import re

Scalar = str | int | float | bool | None

_KEYWORDS: dict[str, bool | None] = {
    "": None, "~": None, "null": None, "Null": None, "NULL": None,
    "true": True, "True": True, "TRUE": True,
    "false": False, "False": False, "FALSE": False,
}  # fmt: skip
_INT_PATTERN = re.compile(r"[-+]?[0-9]+")
_FLOAT_PATTERN = re.compile(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?")
_OCTAL_PATTERN = re.compile(r"0o[0-7]+")
_HEX_PATTERN = re.compile(r"0x[0-9a-fA-F]+")
_NUMBER_STARTS = frozenset("0123456789+-.")

MAX_NUMBER_LENGTH = 100  # characters; long numbers are slow to convert


class NumberTooLong(ValueError):
    """A number with too many digits."""


def resolve_scalar(text: str) -> Scalar:
    """Return the value of a plain scalar."""
    if text in _KEYWORDS:
        return _KEYWORDS[text]
    if text[0] not in _NUMBER_STARTS or not _looks_like_number(text):
        return text
    if len(text) > MAX_NUMBER_LENGTH:
        raise NumberTooLong
    return _parse_number(text)


def is_text_scalar(text: str) -> bool:
    """Whether it is parsed as text without quotes."""
    return text not in _KEYWORDS and not (text[0] in _NUMBER_STARTS and _looks_like_number(text))


def _looks_like_number(text: str) -> bool:
    return any(pattern.fullmatch(text) for pattern in (_FLOAT_PATTERN, _HEX_PATTERN, _OCTAL_PATTERN))


def _parse_number(text: str) -> int | float:
    if _INT_PATTERN.fullmatch(text):
        return int(text)
    if text[:2] == "0x":
        return int(text, 16)
    if text[:2] == "0o":
        return int(text, 8)
    value = float(text)
    if not math.isfinite(value):
        raise NumberTooLong
    return value
