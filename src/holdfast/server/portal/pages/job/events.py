"""Events of a job, newest first, with their actors."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from holdfast.core.records import Event
from holdfast.services.jobs.job_pages import JobHeader

from ...translations import N_
from ...visit import Visit
from .view import Section, build_job_address

EVENTS_PER_PAGE = 100

_EVENT_KIND_LABELS = {  # event kind -> label and tone
    "submitted": (N_("Job submitted"), ""),
    "image": (N_("Image"), ""),
    "placed": (N_("Scheduled"), "run"),
    "starting": (N_("Starting"), "run"),
    "started": (N_("Job started"), "run"),
    "unreachable": (N_("Not reachable"), "warn"),
    "reachable": (N_("Reachable again"), "run"),
    "task-started": (N_("Task started"), "run"),
    "task-succeeded": (N_("Task succeeded"), "good"),
    "task-failed": (N_("Task failed"), "bad"),
    "task-stopped": (N_("Task stopped"), "warn"),
    "task-held": (N_("Task held"), "hold"),
    "task-retry": (N_("Task retried"), "warn"),
    "retry": (N_("Retried"), "warn"),
    "stop-requested": (N_("Stop requested"), "warn"),
    "succeeded": (N_("Succeeded"), "good"),
    "failed": (N_("Failed"), "bad"),
    "cancelled": (N_("Cancelled"), "warn"),
    "held": (N_("Held"), "hold"),
    "warning": (N_("Warning"), "warn"),
    "artifacts": (N_("Artifacts"), ""),
    "artifacts-incomplete": (N_("Artifacts"), ""),
    "tagged": (N_("Tagged"), ""),
    "untagged": (N_("Tag removed"), ""),
    "entered": (N_("Session opened"), ""),
    "hold-extended": (N_("Hold extended"), "hold"),
    "hold-files": (N_("Files held"), "hold"),
    "hold-ending": (N_("Hold expires soon"), "warn"),
    "hold-ended": (N_("Hold ended"), "warn"),
    "debugger-waiting": (N_("Debugger waiting"), "hold"),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class EventRow:
    event: Event
    label: str
    tone: str
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class EventsView:
    rows: tuple[EventRow, ...]
    older: str  # address of the older events; empty: none
    newest: str  # address of the newest events, if others are shown
    many_attempts: bool


def build_event_rows(visit: Visit, events: Sequence[Event]) -> tuple[EventRow, ...]:
    return tuple(_build_event_row(visit, event) for event in events)


def _build_event_row(visit: Visit, event: Event) -> EventRow:
    label, tone = _EVENT_KIND_LABELS.get(event.kind, (event.kind, ""))
    text = visit.translate_message(event.message)
    return EventRow(event=event, label=visit.translate_text(label), tone=tone, text=text)


async def _load_events(visit: Visit, job: JobHeader) -> EventsView:
    before = visit.get_query_integer("before")
    found = await visit.services.job_pages.list_events(job, before=before, limit=EVENTS_PER_PAGE + 1)
    id = job.record.summary.id
    more = len(found) > EVENTS_PER_PAGE
    return EventsView(
        rows=build_event_rows(visit, found[:EVENTS_PER_PAGE]),
        older=build_job_address(id, section="events", before=found[EVENTS_PER_PAGE - 1].seq) if more else "",
        newest=build_job_address(id, section="events") if before is not None else "",
        many_attempts=job.record.summary.attempt > 0,
    )


SECTION = Section(
    key="events", title=lambda visit: visit.translate_text("Events"), template="job/_events.html", load=_load_events
)
