"""What happened to a job, newest first, with who caused it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from holdfast.core.records import Event
from holdfast.services.jobs.detail import Closeup

from ...visit import Visit
from .view import Section, job_address

PAGE = 100

_TONES = {
    "succeeded": "good",
    "task-succeeded": "good",
    "failed": "bad",
    "task-failed": "bad",
    "cancelled": "warn",
    "stop-requested": "warn",
    "task-stopped": "warn",
    "warning": "warn",
    "retry": "warn",
    "task-retry": "warn",
    "held": "hold",
    "task-held": "hold",
    "hold-extended": "hold",
    "hold-files": "hold",
    "hold-ending": "warn",
    "hold-ended": "warn",
    "debugger-waiting": "hold",
    "started": "run",
    "task-started": "run",
    "placed": "run",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class EventRow:
    event: Event
    word: str
    tone: str
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class EventsData:
    rows: tuple[EventRow, ...]
    older: str  # the address of those before; empty when there are none
    newest: str  # the address of the newest, where others are shown
    many_attempts: bool


def event_rows(visit: Visit, events: Sequence[Event]) -> tuple[EventRow, ...]:
    words = _words(visit)
    return tuple(
        EventRow(
            event=event,
            word=words.get(event.kind, event.kind),
            tone=_TONES.get(event.kind, ""),
            text=visit.tell(event.message),
        )
        for event in events
    )


async def _load(visit: Visit, job: Closeup) -> EventsData:
    before = visit.number("before")
    found = await visit.services.closeup.events(job, before=before, limit=PAGE + 1)
    id = job.record.summary.id
    more = len(found) > PAGE
    return EventsData(
        rows=event_rows(visit, found[:PAGE]),
        older=job_address(id, section="events", before=found[PAGE - 1].seq) if more else "",
        newest=job_address(id, section="events") if before is not None else "",
        many_attempts=job.record.summary.attempt > 0,
    )


def _words(visit: Visit) -> dict[str, str]:
    return {
        "submitted": visit.say("Submitted"),
        "placed": visit.say("Placed"),
        "started": visit.say("Started"),
        "task-started": visit.say("Task started"),
        "task-succeeded": visit.say("Task succeeded"),
        "task-failed": visit.say("Task failed"),
        "task-stopped": visit.say("Task stopped"),
        "task-held": visit.say("Task held"),
        "task-retry": visit.say("Task tried again"),
        "retry": visit.say("Tried again"),
        "stop-requested": visit.say("Stop asked for"),
        "succeeded": visit.say("Succeeded"),
        "failed": visit.say("Failed"),
        "cancelled": visit.say("Cancelled"),
        "held": visit.say("Held"),
        "warning": visit.say("Warning"),
        "artifacts": visit.say("Artifacts"),
        "tagged": visit.say("Tagged"),
        "untagged": visit.say("Tag removed"),
        "entered": visit.say("Entered"),
        "hold-extended": visit.say("Hold extended"),
        "hold-files": visit.say("Files kept"),
        "hold-ending": visit.say("Hold ends soon"),
        "hold-ended": visit.say("Hold ended"),
        "debugger-waiting": visit.say("Debugger waiting"),
    }


SECTION = Section(key="events", title=lambda visit: visit.say("Events"), template="job/_events.html", load=_load)
