"""The overview section: the job, its tasks, warnings, and the end of its log."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta

from holdfast.core.job import Hold, HoldScope
from holdfast.core.records import Event
from holdfast.core.slurm_options import RoleOption
from holdfast.services.jobs.job_pages import JobHeader

from ...form_values import format_duration_input
from ...visit import Visit
from ..log import LogView, load_log_view
from .events import EventRow, build_event_rows
from .origin import JobOrigin, find_job_origin
from .tasks import RoleCounts, TaskRow, build_role_counts, build_task_rows, get_requested_attempt, should_offer_ssh_key
from .view import Section

MAX_SHOWN_TASKS = 10  # shown tasks
MAX_SCANNED_EVENTS = 50  # events scanned for warnings


@dataclass(frozen=True, slots=True, kw_only=True)
class HoldPolicyView:
    time: str
    files: bool  # only files are held


@dataclass(frozen=True, slots=True, kw_only=True)
class JobOverview:
    attempt: int
    rows: tuple[TaskRow, ...]
    total: int
    counts: tuple[RoleCounts, ...]
    warnings: tuple[EventRow, ...]
    origin: JobOrigin | None
    time_limit: str
    log: LogView | None
    needs_key: bool = False
    hold: HoldPolicyView | None = None
    slurm: tuple[RoleOption, ...] = ()


async def _load_overview(visit: Visit, job: JobHeader) -> JobOverview:
    attempt = get_requested_attempt(visit, job)
    page = await visit.services.job_pages.list_tasks(job, attempt, limit=MAX_SHOWN_TASKS)
    first = await visit.services.job_pages.list_first_events(job, MAX_SCANNED_EVENTS)
    rows = build_task_rows(visit, job, page)
    return JobOverview(
        attempt=attempt,
        rows=rows,
        total=page.total,
        counts=build_role_counts(page.counts),
        warnings=build_event_rows(visit, await _list_warnings(visit, job, first)),
        origin=await find_job_origin(visit, job, first),
        time_limit=format_duration_input(job.time_limit),
        # A script that reloads keeps the log, which is updated by its own WebSocket.
        log=None if visit.wants_part else await load_log_view(visit, job.record.summary.id),
        needs_key=await should_offer_ssh_key(visit, rows),
        hold=_build_hold_policy_view(visit, job.record.job.hold),
        slurm=await visit.services.jobs.list_slurm_options(job.record),
    )


def _build_hold_policy_view(visit: Visit, hold: Hold | None) -> HoldPolicyView | None:
    if hold is None or hold.keep is HoldScope.NOTHING:
        return None
    default = timedelta(seconds=visit.services.settings.hold.duration)
    return HoldPolicyView(time=format_duration_input(hold.duration or default), files=hold.keep is HoldScope.FILES)


async def _list_warnings(visit: Visit, job: JobHeader, first: tuple[Event, ...]) -> tuple[Event, ...]:
    """Return the warnings of the submission and recent ones."""
    last = (
        await visit.services.job_pages.list_events(job, limit=MAX_SCANNED_EVENTS)
        if len(first) == MAX_SCANNED_EVENTS
        else ()
    )
    why = job.record.summary.message
    events = {event.seq: event for event in (*first, *reversed(last)) if event.kind == "warning"}
    return tuple(event for _, event in sorted(events.items()) if _is_new_warning(event, why))


def _is_new_warning(event: Event, why: str) -> bool:
    """Whether the top of the page does not show the same text."""
    reason = event.message.partition(": ")[2]
    return not reason or reason not in why


SECTION = Section(
    key="overview",
    title=lambda visit: visit.translate_text("Overview"),
    template="job/_overview.html",
    load=_load_overview,
)
