"""Keeping a failed task for debugging: for how long, what of it, and what its log says then."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum

from .exits.exit import Exit, ExitKind
from .job import Hold, Keep
from .messages import msg

DEFAULT = timedelta(days=7)  # OpenPAI's, and ours
_EARLIEST = timedelta(hours=1)  # before its end, a hold is told to end soon
_MIN_LENGTH = timedelta(minutes=10)  # holds below this end untold: nobody would come in time
_INNER = 65  # columns within the frame of the banner

# What can be held is what the user's own command did. The rest is no fault of theirs to look for, or was asked for.
_HELD_KINDS = frozenset({ExitKind.USER_ERROR, ExitKind.OUT_OF_MEMORY})


class Ask(StrEnum):
    """What somebody may want of a hold that is there."""

    EXTEND = "extend"
    RELEASE = "release"
    KEEP_FILES = "keep-files"


@dataclass(frozen=True, slots=True, kw_only=True)
class HoldRequest:
    actor: str
    at: datetime
    ask: Ask
    task: str | None = None  # None: every held task of the job
    until: datetime | None = None  # with EXTEND
    why: str = ""  # of a release that nobody asked for by hand: a sentence


@dataclass(frozen=True, slots=True, kw_only=True)
class HoldPolicy:
    """How a task of this job is held, as the admin, the group and the job settled it."""

    duration: timedelta = DEFAULT
    longest: timedelta = DEFAULT * 4  # with all extensions, from its beginning
    keep: Keep = Keep.ALL
    room: int = 1_000_000  # for so many more tasks just now
    refusal: str = ""  # why there is no more room: a sentence


def held_for(hold: Hold | None, default: timedelta, longest: timedelta) -> HoldPolicy | None:
    """None: a failure of such a job ends it at once."""
    if hold is None or hold.keep is Keep.NOTHING:
        return None
    return HoldPolicy(duration=min(hold.duration or default, longest), longest=longest, keep=hold.keep)


def can_be_held(reason: Exit) -> bool:
    return reason.kind in _HELD_KINDS


def warned_from(since: datetime, until: datetime) -> datetime | None:
    """When to tell that a hold ends soon: an hour before, or the tenth part of a short one. None: not at all."""
    span = until - since
    return None if span < _MIN_LENGTH else until - min(_EARLIEST, span / 10)


def banner(code: int, policy: HoldPolicy) -> str:
    """What the log of a held task ends with, as OpenPAI's users know it."""
    kept = msg("it will be reserved") if policy.keep is Keep.ALL else msg("its files will be kept")
    lines = [
        msg("The job container failed, so {kept} for {duration}", kept=kept, duration=spell_out(policy.duration)),
        msg("After debugging, please stop the job manually."),
    ]
    inner = max(_INNER, *(len(line) + 2 for line in lines))
    edge = "=" * (inner + 12)
    boxed = [f"======{line.rjust(len(line) + (inner - len(line) + 1) // 2).ljust(inner)}======" for line in lines]
    return "\n".join([msg("job has finished with exit code {code}", code=code), edge, *boxed, edge, ""])


def spell_out(span: timedelta) -> str:
    """In the largest unit that tells it exactly: 1 week, 36 hours, 90 seconds."""
    seconds = int(span.total_seconds())
    for unit, size in (("week", 7 * 86400), ("day", 86400), ("hour", 3600), ("minute", 60), ("second", 1)):
        if seconds % size == 0 and seconds >= size:
            count = seconds // size
            return f"{count} {unit}{'' if count == 1 else 's'}"
    return "0 seconds"
