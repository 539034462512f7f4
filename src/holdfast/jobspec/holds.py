"""Holds in a word, as options and queries give them, and as job files write them."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from holdfast.core.errors import UserError
from holdfast.core.job import Hold, Keep
from holdfast.core.messages import msg

from .quantities import MAX_DURATION, parse_duration, render_duration

NOT_HELD = Hold(keep=Keep.NOTHING)  # not even where the group's jobs are held
MAX_WORD_LENGTH = 100
_ON = frozenset({"true", "on", "yes"})
_OFF = frozenset({"false", "off", "no", "none"})


def hold_for(duration: timedelta | None, keep: Keep = Keep.ALL) -> Hold:
    """No time at all is no hold."""
    return Hold(duration=duration, keep=keep) if duration is None or duration else NOT_HELD


def parse_hold(text: str, field: str = "hold") -> Hold:
    """true, false, 7d, files, files:7d, all:7d."""
    word = text.strip().lower()
    if word in _OFF:
        return NOT_HELD
    if word in _ON:
        return Hold()
    kept, colon, length = word.partition(":")
    keep = Keep(kept) if kept in (Keep.ALL, Keep.FILES) else None
    if keep is not None and not colon:
        return Hold(keep=keep)
    duration = _duration(length if keep is not None else word)
    if duration is None:
        raise UserError(
            msg("{text} is not a hold", text=repr(text[:MAX_WORD_LENGTH])),
            field=field,
            hint=msg("Write true, false, a time such as 7d, files, or files:7d."),
        )
    return hold_for(duration, keep or Keep.ALL)


def hold_word(hold: Hold | None) -> str:
    """What `parse_hold` reads."""
    if hold is None or hold.keep is Keep.NOTHING:
        return "off"
    length = "" if hold.duration is None else render_duration(hold.duration)
    if hold.keep is Keep.ALL:
        return length or "on"
    return f"{hold.keep.value}:{length}" if length else hold.keep.value


def _duration(text: str) -> timedelta | None:
    found = parse_duration(f"{text}s" if text.isascii() and text.isdigit() else text)
    return found if found is not None and found <= MAX_DURATION else None


def write_hold(hold: Hold) -> Any:
    """As a job file says it."""
    if hold.keep is Keep.NOTHING:
        return False
    written: dict[str, Any] = {}
    if hold.duration is not None:
        written["for"] = render_duration(hold.duration)
    if hold.keep is not Keep.ALL:
        written["keep"] = hold.keep.value
    return written or True
