"""The recurring job that a job was made from: when it was due, or by hand."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from holdfast.core.records import Event
from holdfast.services.jobs.detail import Closeup

from ...visit import Visit

# A job that was run by hand is none of its schedule's: only its first event tells.
_BY_HAND = re.compile(r", from the schedule (recurrence-\w+)\Z")


@dataclass(frozen=True, slots=True, kw_only=True)
class Origin:
    schedule: str
    name: str
    by_hand: bool = False


async def origin_of(visit: Visit, job: Closeup, events: Sequence[Event]) -> Origin | None:
    """`events`: its first ones."""
    due = job.record.summary.schedule
    by_hand = None if due else _asked_of(events)
    id = due or by_hand
    if id is None:
        return None
    name = (await visit.services.schedules.names(visit.who, [id])).get(id)
    if name is None and by_hand:  # it was deleted
        return None
    return Origin(schedule=id, name=name or id, by_hand=bool(by_hand))


def _asked_of(events: Sequence[Event]) -> str | None:
    told = next((event.message for event in events if event.kind == "submitted"), "")
    found = _BY_HAND.search(told)
    return found[1] if found else None
