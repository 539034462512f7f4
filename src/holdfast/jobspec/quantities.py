"""Durations and sizes such as 1h30m and 2Gi: exact parsing and rendering."""

from __future__ import annotations

import re
from datetime import timedelta
from decimal import Decimal

_UNIT_SECONDS = {"w": 7 * 86400, "d": 86400, "h": 3600, "m": 60, "s": 1}
_DURATION_PART_PATTERN = r"[0-9]{1,12}(?:\.[0-9]{1,9})?\s*[wdhms]"
DURATION_PATTERN = rf"^\s*{_DURATION_PART_PATTERN}(?:\s*{_DURATION_PART_PATTERN}){{0,9}}\s*$"
_DURATION_REGEX = re.compile(DURATION_PATTERN)
_DURATION_PART_REGEX = re.compile(r"([0-9.]+)\s*([wdhms])")

MAX_DURATION = timedelta(days=36500)  # so that "now plus this" is always a date

_UNIT_POWERS = {"": 0, "k": 1, "m": 2, "g": 3, "t": 4, "p": 5}
SIZE_PATTERN = r"^[0-9]{1,20}(\.[0-9]{1,9})?\s*([kKmMgGtTpP]i?)?[bB]?$"
_SIZE_REGEX = re.compile(r"([0-9]+(?:\.[0-9]+)?)\s*([kmgtp]?)(i?)b?")


def parse_duration(text: str) -> timedelta | None:
    """Parse 90m, 2h30m or 1.5d; None if it is not a duration."""
    if not _DURATION_REGEX.fullmatch(text):
        return None
    seconds = sum(Decimal(number) * _UNIT_SECONDS[unit] for number, unit in _DURATION_PART_REGEX.findall(text))
    if seconds > 10**11:
        return timedelta.max
    return timedelta(microseconds=int(seconds * 1_000_000))


def format_duration(duration: timedelta) -> str:
    """Return the shortest common form."""
    rest, micros = divmod(duration // timedelta(microseconds=1), 1_000_000)
    parts = []
    for unit in "dhm":
        count, rest = divmod(rest, _UNIT_SECONDS[unit])
        if count:
            parts.append(f"{count}{unit}")
    if micros:
        parts.append(f"{rest}.{micros:06d}".rstrip("0") + "s")
    elif rest or not parts:
        parts.append(f"{rest}s")
    return "".join(parts)


def parse_size(text: str) -> int | None:
    """Parse 512Mi (1024 based), 1.5G (1000 based) or 4096 to bytes; None if it is not a size."""
    if not re.fullmatch(SIZE_PATTERN, text):
        return None
    found = _SIZE_REGEX.fullmatch(text.lower())
    assert found is not None
    number, unit, binary = found.groups()
    return int(Decimal(number) * (1024 if binary else 1000) ** _UNIT_POWERS[unit])


def format_size(size: int) -> str | int:
    """Return the form with the largest exact unit."""
    for power, unit in ((4, "Ti"), (3, "Gi"), (2, "Mi"), (1, "Ki")):
        if size and size % 1024**power == 0:
            return f"{size // 1024**power}{unit}"
    return size
