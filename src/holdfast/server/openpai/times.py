"""Times in OpenPAI's formats: milliseconds since 1970 in jobs, ISO 8601 in events."""

from __future__ import annotations

from datetime import UTC, datetime


def to_milliseconds(at: datetime | None) -> int | None:
    return None if at is None else round(at.timestamp() * 1000)


def to_iso_text(at: datetime) -> str:
    return at.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def count_seconds_until(at: datetime | None) -> int | None:
    """Return None when there is nothing to wait for; 0 when it is due."""
    return None if at is None else max(0, round((at - datetime.now(UTC)).total_seconds()))
