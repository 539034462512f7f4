"""Query parameters that are more than a plain number or text."""

from __future__ import annotations

import math
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

from holdfast.core.errors import UserError
from holdfast.core.messages import msg
from holdfast.core.states import JobState

_MAX_AGO = timedelta(days=36500)


def split(values: Sequence[str] | None) -> tuple[str, ...] | None:
    """a,b and a repeated parameter mean the same; nothing means any."""
    found = [part.strip() for value in values or () for part in value.split(",")]
    return tuple(dict.fromkeys(part for part in found if part)) or None


def parse_states(values: Sequence[str] | None) -> tuple[JobState, ...] | None:
    names = split(values)
    if names is None:
        return None
    known = {state.value.lower(): state for state in JobState}
    for name in names:
        if name.lower() not in known:
            raise UserError(
                msg("There is no state {name}", name=repr(name[:50])),
                field="state",
                hint=msg("Known are: {jobstate}.", jobstate=", ".join(JobState)),
            )
    return tuple(known[name.lower()] for name in names)


def parse_time(text: str | None, field: str) -> datetime | None:
    """ISO 8601; without a zone it is UTC."""
    if text is None:
        return None
    try:
        at = datetime.fromisoformat(text.strip().replace(" ", "+", 1) if "T" in text else text.strip())
        return at.astimezone(UTC) if at.tzinfo else at.replace(tzinfo=UTC)
    except (ValueError, OverflowError):
        raise UserError(
            msg("{text} is not a time", text=repr(text[:50])),
            field=field,
            hint=msg("Write it as 2026-01-31T12:00:00Z."),
        ) from None


def parse_since(text: str, now: datetime) -> datetime:
    """A time, or how many seconds ago."""
    try:
        seconds = float(text)
    except ValueError:
        at = parse_time(text, "since")
        assert at is not None
        return at
    if not math.isfinite(seconds) or seconds < 0:
        raise UserError(msg("since is a time, or how many seconds ago"), field="since")
    return now - min(timedelta(seconds=min(seconds, 1e9)), _MAX_AGO)
