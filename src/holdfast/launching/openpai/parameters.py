"""Parses the unvalidated parameters of plugins."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from holdfast.jobspec.templates import format_value


class InvalidParameters(Exception):
    """Invalid parameters of a plugin; the text says why."""


def get_text(parameters: Mapping[str, Any], key: str) -> str:
    value = parameters.get(key)
    if not isinstance(value, str) or not value:
        raise InvalidParameters(f"its parameter {key} must be text")
    if "\0" in value:
        raise InvalidParameters(f"its parameter {key} contains a NUL byte")
    return value


def get_lines(parameters: Mapping[str, Any], key: str) -> list[str]:
    """Return a list of texts; numbers and booleans become text."""
    value = parameters.get(key)
    if value is None:
        return []
    if not isinstance(value, list | tuple) or any(isinstance(each, list | tuple | Mapping) for each in value):
        raise InvalidParameters(f"its parameter {key} must be a list of texts")
    return [format_value(each) for each in value]


def get_number(parameters: Mapping[str, Any], key: str, *, least: int, most: int) -> int:
    value = parameters.get(key)
    if isinstance(value, str) and value.isascii() and value.isdigit() and len(value) < 10:
        value = int(value)
    if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
        raise InvalidParameters(f"its parameter {key} must be a whole number from {least} to {most}")
    return value
