"""Times as OpenPAI's clients read them: milliseconds since 1970 in jobs, ISO text in events."""

from __future__ import annotations

from datetime import UTC, datetime


def millis(at: datetime | None) -> int | None:
    return None if at is None else round(at.timestamp() * 1000)


def iso(at: datetime) -> str:
    return at.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def seconds_until(at: datetime | None) -> int | None:
    """None when there is nothing to wait for; 0 when it is due."""
    return None if at is None else max(0, round((at - datetime.now(UTC)).total_seconds()))
