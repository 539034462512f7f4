"""Integers in URLs, which are untrusted."""

from __future__ import annotations

MAX_INTEGER = 2**62  # fits into a database integer


def parse_integer(text: str, most: int = MAX_INTEGER) -> int | None:
    """Parse an integer; None if it is invalid or greater than `most`."""
    if not (text.isascii() and text.isdecimal() and len(text) < 20):
        return None
    number = int(text)
    return number if number <= most else None
