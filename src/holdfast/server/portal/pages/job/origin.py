"""The schedule that submitted a job, at a due time or by hand."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from holdfast.core.records import Event
from holdfast.services.jobs.job_pages import JobHeader

from ...visit import Visit

# A job that was started by hand has no schedule id: only its first event names the schedule. Older events have a comma.
_MANUAL_RUN_PATTERN = re.compile(r",? from the schedule (recurrence-\w+)\Z")


@dataclass(frozen=True, slots=True, kw_only=True)
class JobOrigin:
    schedule: str
    name: str
    by_hand: bool = False


async def find_job_origin(visit: Visit, job: JobHeader, events: Sequence[Event]) -> JobOrigin | None:
    """Find the schedule of a job. `events`: its first events."""
    due = job.record.summary.schedule
    by_hand = None if due else _find_manual_schedule(events)
    id = due or by_hand
    if id is None:
        return None
    name = (await visit.services.schedules.load_schedule_names(visit.current_actor, [id])).get(id)
    if name is None and by_hand:  # the schedule was deleted
        return None
    return JobOrigin(schedule=id, name=name or id, by_hand=bool(by_hand))


def _find_manual_schedule(events: Sequence[Event]) -> str | None:
    message = next((event.message for event in events if event.kind == "submitted"), "")
    found = _MANUAL_RUN_PATTERN.search(message)
    return found[1] if found else None
