"""Readable durations."""

from __future__ import annotations

from datetime import timedelta


def format_duration(span: timedelta) -> str:
    """3600 s -> 1h; 90 s -> 1m30s."""
    seconds = int(span.total_seconds())
    parts = ((seconds // 86400, "d"), (seconds // 3600 % 24, "h"), (seconds // 60 % 60, "m"), (seconds % 60, "s"))
    return "".join(f"{count}{unit}" for count, unit in parts if count) or "0s"
