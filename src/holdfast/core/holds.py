"""Holds of failed tasks: duration, scope, and the banner in the log."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum

from .exits.exit import Exit, ExitKind
from .job import Hold, HoldScope
from .messages import msg

DEFAULT_HOLD_DURATION = timedelta(days=7)  # the same as OpenPAI's
_WARNING_LEAD_TIME = timedelta(hours=1)  # before a hold expires
_MIN_WARNED_DURATION = timedelta(minutes=10)  # shorter holds expire without a warning
_BANNER_WIDTH = 65  # columns

# Only failures of the user's own command are held: others are not theirs to debug, or were requested.
_HOLDABLE_KINDS = frozenset({ExitKind.USER_ERROR, ExitKind.OUT_OF_MEMORY})


class HoldAction(StrEnum):
    """A request about an existing hold."""

    EXTEND = "extend"
    RELEASE = "release"
    KEEP_FILES = "keep-files"


@dataclass(frozen=True, slots=True, kw_only=True)
class HoldRequest:
    actor: str
    at: datetime
    action: HoldAction
    task: str | None = None  # None: every held task of the job
    until: datetime | None = None  # with EXTEND
    why: str = ""  # reason of an automatic release: a sentence


@dataclass(frozen=True, slots=True, kw_only=True)
class HoldPolicy:
    """How tasks of this job are held, from the settings of the admin, the group and the job."""

    duration: timedelta = DEFAULT_HOLD_DURATION
    longest: timedelta = DEFAULT_HOLD_DURATION * 4  # in total, with all extensions
    keep: HoldScope = HoldScope.ALL
    remaining_holds: int = 1_000_000  # how many more tasks can be held now
    refusal: str = ""  # why no more tasks can be held: a sentence


def resolve_hold_policy(hold: Hold | None, default: timedelta, longest: timedelta) -> HoldPolicy | None:
    """Return the hold policy of a job; None: its failed tasks are not held."""
    if hold is None or hold.keep is HoldScope.NOTHING:
        return None
    return HoldPolicy(duration=min(hold.duration or default, longest), longest=longest, keep=hold.keep)


def can_be_held(reason: Exit) -> bool:
    return reason.kind in _HOLDABLE_KINDS


def compute_warning_time(since: datetime, until: datetime) -> datetime | None:
    """Return when to warn that a hold expires: an hour before, or the last tenth of a short one. None: never."""
    span = until - since
    return None if span < _MIN_WARNED_DURATION else until - min(_WARNING_LEAD_TIME, span / 10)


def render_hold_banner(code: int, policy: HoldPolicy) -> str:
    """Render the end of a held task's log, as OpenPAI's users know it."""
    kept = msg("it will be reserved") if policy.keep is HoldScope.ALL else msg("its files are kept")
    lines = [
        msg(
            "The job container failed, so {kept} for {duration}",
            kept=kept,
            duration=format_duration_in_words(policy.duration),
        ),
        msg("After debugging, please stop the job manually."),
    ]
    inner = max(_BANNER_WIDTH, *(len(line) + 2 for line in lines))
    edge = "=" * (inner + 12)
    boxed = [f"======{line.rjust(len(line) + (inner - len(line) + 1) // 2).ljust(inner)}======" for line in lines]
    return "\n".join([msg("job has finished with exit code {code}", code=code), edge, *boxed, edge, ""])


def format_duration_in_words(span: timedelta) -> str:
    """Format in the largest exact unit: 1 week, 36 hours, 90 seconds."""
    seconds = int(span.total_seconds())
    for unit, size in (("week", 7 * 86400), ("day", 86400), ("hour", 3600), ("minute", 60), ("second", 1)):
        if seconds % size == 0 and seconds >= size:
            count = seconds // size
            return f"{count} {unit}{'' if count == 1 else 's'}"
    return "0 seconds"
