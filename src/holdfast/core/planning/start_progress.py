"""Shows what an engine does with the accepted tasks of a job, or what they wait for there: one event for all of them,
and few of them, since the reasons of a long queue change all the time."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from ..attempt import Observation, ObservedState
from ..messages import msg
from ..states import JobState
from .builder import PlanBuilder

START_EVENT = "starting"
QUICK_REPORTS = 3  # events of an attempt that are written at once
REPORT_INTERVAL = timedelta(minutes=1)  # between two events after these


@dataclass(frozen=True, slots=True, kw_only=True)
class StartProgress:
    counts: Mapping[str, int]  # tasks by what they wait for
    quiet_until: datetime | None = None  # no event before that


def is_start_progress(observation: Observation) -> bool:
    return observation.seen in (ObservedState.QUEUED, ObservedState.STARTING) and bool(observation.message)


def count_messages(observations: Iterable[Observation]) -> Counter[str]:
    return Counter(each.message for each in observations if is_start_progress(each))


def find_quiet_end(reported: int, last_reported_at: datetime | None) -> datetime | None:
    """Return when the next event may be written; None: now. `reported`: events of this attempt."""
    return last_reported_at + REPORT_INTERVAL if last_reported_at and reported >= QUICK_REPORTS else None


def summarize_counts(counts: Mapping[str, int]) -> str:
    """Return what most tasks wait for; empty if there are none."""
    if not counts:
        return ""
    message, count = min(counts.items(), key=lambda item: (-item[1], item[0]))
    if len(counts) == 1:
        return message
    return msg("{message} ({count} of {total} tasks)", message=message, count=count, total=sum(counts.values()))


def report_start_progress(work: PlanBuilder, progress: StartProgress) -> None:
    text = summarize_counts(progress.counts)
    if not text or work.after.state is not JobState.PREPARING or work.after.message == text:
        return
    if progress.quiet_until is not None and work.now < progress.quiet_until:
        work.report_at = progress.quiet_until
        return
    work.after = replace(work.after, message=text)
    work.add_event(START_EVENT, text)
