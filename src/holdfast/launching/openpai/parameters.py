"""Reading the parameters of plugins, which nobody has checked before."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from holdfast.jobspec.templates import value_text


class BadParameters(Exception):
    """The plugin can do nothing with what it was given; the text says why."""


def text_of(parameters: Mapping[str, Any], key: str) -> str:
    value = parameters.get(key)
    if not isinstance(value, str) or not value:
        raise BadParameters(f"its parameter {key} must be text")
    if "\0" in value:
        raise BadParameters(f"its parameter {key} holds a NUL byte")
    return value


def lines_of(parameters: Mapping[str, Any], key: str) -> list[str]:
    """A list of texts; a number or a truth value stands for its spelling. None when it is not there."""
    value = parameters.get(key)
    if value is None:
        return []
    if not isinstance(value, list | tuple) or any(isinstance(each, list | tuple | Mapping) for each in value):
        raise BadParameters(f"its parameter {key} must be a list of texts")
    return [value_text(each) for each in value]


def number_of(parameters: Mapping[str, Any], key: str, *, least: int, most: int) -> int:
    value = parameters.get(key)
    if isinstance(value, str) and value.isascii() and value.isdigit() and len(value) < 10:
        value = int(value)
    if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
        raise BadParameters(f"its parameter {key} must be a whole number from {least} to {most}")
    return value
