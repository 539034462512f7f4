"""Query parameters that need parsing."""

from __future__ import annotations

import math
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

from holdfast.core.errors import UserError
from holdfast.core.messages import msg
from holdfast.core.states import JobState

_MAX_AGE = timedelta(days=36500)


def split_values(values: Sequence[str] | None) -> tuple[str, ...] | None:
    """Split a parameter: a,b and a repeated parameter are the same; empty means any."""
    found = [part.strip() for value in values or () for part in value.split(",")]
    return tuple(dict.fromkeys(part for part in found if part)) or None


def parse_states(values: Sequence[str] | None) -> tuple[JobState, ...] | None:
    names = split_values(values)
    if names is None:
        return None
    known = {state.value.lower(): state for state in JobState}
    for name in names:
        if name.lower() not in known:
            raise UserError(
                msg("Unknown state {name}", name=repr(name[:50])),
                field="state",
                hint=msg("Use one of: {states}.", states=", ".join(JobState)),
            )
    return tuple(known[name.lower()] for name in names)


def parse_time(text: str | None, field: str) -> datetime | None:
    """Parse ISO 8601; the default zone is UTC."""
    if text is None:
        return None
    try:
        at = datetime.fromisoformat(text.strip().replace(" ", "+", 1) if "T" in text else text.strip())
        return at.astimezone(UTC) if at.tzinfo else at.replace(tzinfo=UTC)
    except (ValueError, OverflowError):
        raise UserError(
            msg("{text} is not a valid time", text=repr(text[:50])),
            field=field,
            hint=msg("Use the format 2026-01-31T12:00:00Z."),
        ) from None


def parse_since(text: str, now: datetime) -> datetime:
    """Parse a time, or a number of seconds ago."""
    try:
        seconds = float(text)
    except ValueError:
        at = parse_time(text, "since")
        assert at is not None
        return at
    if not math.isfinite(seconds) or seconds < 0:
        raise UserError(msg("since must be a time or a number of seconds before now"), field="since")
    return now - min(timedelta(seconds=min(seconds, 1e9)), _MAX_AGE)
