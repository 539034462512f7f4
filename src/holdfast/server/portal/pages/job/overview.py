"""What is seen first: what the job is, how its tasks do, warnings, and the end of its log."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta

from holdfast.core.job import Hold, Keep
from holdfast.core.records import Event
from holdfast.services.jobs.detail import Closeup

from ...amounts import duration_text
from ...visit import Visit
from ..log import LogView, asked, log_view
from .events import EventRow, event_rows
from .origin import Origin, origin_of
from .tasks import RoleCounts, TaskRow, attempt_asked, role_counts, task_rows, wants_key
from .view import Section

FEW = 10  # tasks that are shown at once
MAX_LOOKED = 50  # events that are looked through for warnings


@dataclass(frozen=True, slots=True, kw_only=True)
class HoldWords:
    time: str
    files: bool  # these alone


@dataclass(frozen=True, slots=True, kw_only=True)
class OverviewData:
    attempt: int
    rows: tuple[TaskRow, ...]
    total: int
    counts: tuple[RoleCounts, ...]
    warnings: tuple[EventRow, ...]
    origin: Origin | None
    time_limit: str
    log: LogView | None
    needs_key: bool = False
    hold: HoldWords | None = None  # how it is kept when it fails


async def _load(visit: Visit, job: Closeup) -> OverviewData:
    attempt = attempt_asked(visit, job)
    page = await visit.services.closeup.tasks(job, attempt, limit=FEW)
    first = await visit.services.closeup.first_events(job, MAX_LOOKED)
    rows = task_rows(visit, job, page)
    return OverviewData(
        attempt=attempt,
        rows=rows,
        total=page.total,
        counts=role_counts(page.counts),
        warnings=event_rows(visit, await _warnings(visit, job, first)),
        origin=await origin_of(visit, job, first),
        time_limit=duration_text(job.time_limit),
        # A script that looks again keeps the log that is there: that one is live by itself.
        log=None if visit.wants_part else await log_view(visit, job.record.summary.id, **asked(visit)),
        needs_key=await wants_key(visit, rows),
        hold=_hold(visit, job.record.job.hold),
    )


def _hold(visit: Visit, hold: Hold | None) -> HoldWords | None:
    if hold is None or hold.keep is Keep.NOTHING:
        return None
    usual = timedelta(seconds=visit.services.settings.hold.duration)
    return HoldWords(time=duration_text(hold.duration or usual), files=hold.keep is Keep.FILES)


async def _warnings(visit: Visit, job: Closeup, first: tuple[Event, ...]) -> tuple[Event, ...]:
    """Of its submission, and of late."""
    last = await visit.services.closeup.events(job, limit=MAX_LOOKED) if len(first) == MAX_LOOKED else ()
    why = job.record.summary.message
    found = {
        event.seq: event for event in (*first, *reversed(last)) if event.kind == "warning" and _is_news(event, why)
    }
    return tuple(found[seq] for seq in sorted(found))


def _is_news(event: Event, why: str) -> bool:
    """Not where the top of the page says the same."""
    reason = event.message.partition(": ")[2]
    return not reason or reason not in why


SECTION = Section(key="overview", title=lambda visit: visit.say("Overview"), template="job/_overview.html", load=_load)
