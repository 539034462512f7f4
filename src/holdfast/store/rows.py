"""Column values: times, durations and text."""

from __future__ import annotations

import json
import unicodedata
from datetime import UTC, datetime, timedelta
from typing import Any

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
MICROS_PER_HOUR = 3600 * 1_000_000  # microseconds

# -- times and durations


def to_micros(at: datetime) -> int:
    """Convert exactly, unlike datetime.timestamp(). A datetime without a time zone raises TypeError."""
    return duration_to_micros(at - _EPOCH)


def to_optional_micros(at: datetime | None) -> int | None:
    return None if at is None else duration_to_micros(at - _EPOCH)


def from_micros(value: int) -> datetime:
    return _EPOCH + timedelta(microseconds=value)


def from_optional_micros(value: int | None) -> datetime | None:
    return None if value is None else _EPOCH + timedelta(microseconds=value)


def duration_to_micros(span: timedelta) -> int:
    return (span.days * 86400 + span.seconds) * 1_000_000 + span.microseconds


def duration_from_micros(value: int) -> timedelta:
    return timedelta(microseconds=value)


# -- text


def to_json(value: Any) -> str:
    """Encode as ASCII, so that every database accepts every character."""
    return json.dumps(value, separators=(",", ":"))


def make_storable(text: str) -> str:
    """Replace what a database cannot store: NUL and lone surrogates."""
    if text.isascii():
        return text.replace("\0", "\ufffd") if "\0" in text else text
    return text.replace("\0", "\ufffd").encode("utf-8", "replace").decode("utf-8")


def fold_text(text: str) -> str:
    """Normalize text for search: ignore letter case and compatibility forms."""
    if text.isascii():
        return text.lower()
    return unicodedata.normalize("NFKC", text).casefold()


def build_search_text(name: str, job_id: str) -> str:
    """Join name and id by line breaks, so that nothing matches across; those at the end complete the last trigrams."""
    return f"{fold_text(name).replace(chr(10), ' ')}\n{job_id}\n\n"
