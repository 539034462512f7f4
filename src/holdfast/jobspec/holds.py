"""Holds in options, queries and job files."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from holdfast.core.errors import UserError
from holdfast.core.job import Hold, HoldScope
from holdfast.core.messages import msg

from .quantities import MAX_DURATION, format_duration, parse_duration

NO_HOLD = Hold(keep=HoldScope.NOTHING)  # disables the group's hold
MAX_SHOWN_LENGTH = 100
_TRUE_WORDS = frozenset({"true", "on", "yes"})
_FALSE_WORDS = frozenset({"false", "off", "no", "none"})


def build_hold(duration: timedelta | None, keep: HoldScope = HoldScope.ALL) -> Hold:
    """Return a hold; a zero duration is no hold."""
    return Hold(duration=duration, keep=keep) if duration is None or duration else NO_HOLD


def parse_hold(text: str, field: str = "hold") -> Hold:
    """Parse true, false, 7d, files, files:7d or all:7d."""
    word = text.strip().lower()
    if word in _FALSE_WORDS:
        return NO_HOLD
    if word in _TRUE_WORDS:
        return Hold()
    kept, colon, length = word.partition(":")
    keep = HoldScope(kept) if kept in (HoldScope.ALL, HoldScope.FILES) else None
    if keep is not None and not colon:
        return Hold(keep=keep)
    duration = _parse_hold_duration(length if keep is not None else word)
    if duration is None:
        raise UserError(
            msg("{text} is not a valid hold", text=repr(text[:MAX_SHOWN_LENGTH])),
            field=field,
            hint=msg("Write true, false, a duration such as 7d, files, or files:7d."),
        )
    return build_hold(duration, keep or HoldScope.ALL)


def format_hold(hold: Hold | None) -> str:
    """Format for `parse_hold`."""
    if hold is None or hold.keep is HoldScope.NOTHING:
        return "off"
    length = "" if hold.duration is None else format_duration(hold.duration)
    if hold.keep is HoldScope.ALL:
        return length or "on"
    return f"{hold.keep.value}:{length}" if length else hold.keep.value


def _parse_hold_duration(text: str) -> timedelta | None:
    found = parse_duration(f"{text}s" if text.isascii() and text.isdigit() else text)
    return found if found is not None and found <= MAX_DURATION else None


def render_hold(hold: Hold) -> Any:
    """Convert to the form of a job file."""
    if hold.keep is HoldScope.NOTHING:
        return False
    written: dict[str, Any] = {}
    if hold.duration is not None:
        written["for"] = format_duration(hold.duration)
    if hold.keep is not HoldScope.ALL:
        written["keep"] = hold.keep.value
    return written or True
