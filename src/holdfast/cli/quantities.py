"""Parsing and formatting of durations, sizes and times."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta

from typer import BadParameter

_SECONDS_BY_UNIT = {"s": 1, "m": 60, "h": 3600, "d": 86400, "w": 604800}
_DURATION_PART = re.compile(r"(\d+(?:\.\d+)?)([smhdw])")


def parse_duration(text: str) -> float:
    """Convert 90, 90s, 10m, 1h30m or 2d to seconds."""
    cleaned = text.strip().lower()
    if re.fullmatch(r"\d+(\.\d+)?", cleaned):
        return float(cleaned)
    if cleaned and not _DURATION_PART.sub("", cleaned):
        return sum(float(number) * _SECONDS_BY_UNIT[unit] for number, unit in _DURATION_PART.findall(cleaned))
    raise BadParameter(f"{text!r} is not a duration; use a format such as 90s, 10m, 1h30m or 2d")


def parse_since(text: str) -> datetime | float:
    """Parse a time, or a duration before now in seconds."""
    try:
        found = datetime.fromisoformat(text.strip())
    except ValueError:
        try:
            return parse_duration(text)
        except BadParameter:
            raise BadParameter(f"{text!r} is neither a duration (10m, 2h) nor a time (2026-01-31T12:00)") from None
    return found if found.tzinfo else found.astimezone()  # without a zone, it is local time


def resolve_since(text: str, now: datetime) -> datetime:
    found = parse_since(text)
    return found if isinstance(found, datetime) else now - timedelta(seconds=found)


def parse_size(text: str) -> int:
    """Convert 512Mi, 2Gi, 1.5G or 1024 to bytes."""
    match = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([KMGT]?)(i?)B?", text.strip(), re.IGNORECASE)
    if match is None:
        raise BadParameter(f"{text!r} is not a size; use a format such as 512Mi, 2Gi or 1.5G")
    number, unit, binary = match.groups()
    base = 1024 if binary else 1000
    return int(float(number) * base ** " KMGT".index(unit.upper() or " "))


def format_duration(seconds: float) -> str:
    """Format as 0.4s, 30s, 3m12s, 2h05m or 3d4h: at most two units, to fit a column."""
    if seconds < 10:
        return f"{max(0.0, seconds):.1f}s"
    whole = int(seconds)
    if whole < 60:
        return f"{whole}s"
    if whole < 3600:
        return f"{whole // 60}m{whole % 60:02}s"
    if whole < 86400:
        return f"{whole // 3600}h{whole % 3600 // 60:02}m"
    return f"{whole // 86400}d{whole % 86400 // 3600}h"


def format_span(start: datetime | None, end: datetime | None, now: datetime) -> str:
    """Format the time from `start` to `end`, or to `now` if it has not ended."""
    return "" if start is None else format_duration(((end or now) - start).total_seconds())


def format_local_time(at: datetime | None) -> str:
    return "" if at is None else at.astimezone().strftime("%Y-%m-%d %H:%M:%S")


def format_size(count: int | None) -> str:
    if count is None:
        return ""
    for unit, size in (("TiB", 1 << 40), ("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)):
        if count >= size:
            return f"{count / size:.1f} {unit}".replace(".0 ", " ")
    return f"{count} B"


def format_count(count: float, thing: str) -> str:
    """Format as 1 core, 0.5 cores, 2 cores."""
    return f"{count:g} {thing}{'' if count == 1 else 's'}"


def format_resources(cpu: float | None, memory: int | None, gpu: int | None) -> str:
    """Format as 2 cores, 4 GiB, 1 GPU; without those that are None."""
    parts = [
        format_count(cpu, "core") if cpu is not None else "",
        format_size(memory),
        format_count(gpu, "GPU") if gpu is not None else "",
    ]
    return ", ".join(filter(None, parts))


def utc_now() -> datetime:
    return datetime.now(UTC)
