"""Whole numbers in addresses, which anybody can write."""

from __future__ import annotations

MAX_SIZE = 2**62  # what a database can compare with


def whole_number(text: str, most: int = MAX_SIZE) -> int | None:
    """None where it is no such number, or more than `most`."""
    if not (text.isascii() and text.isdecimal() and len(text) < 20):
        return None
    number = int(text)
    return number if number <= most else None
