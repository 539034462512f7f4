"""GET /v2/jobs/<user>~<job>/events: what happened to a job, newest first."""

from __future__ import annotations

import asyncio
from collections import Counter, deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any
from uuid import NAMESPACE_OID, uuid5

from starlette.responses import Response

from holdfast.core.attempt_id import AttemptId
from holdfast.core.exits.exit import Exit, ExitKind
from holdfast.core.exits.table import spec_of
from holdfast.core.identity import container_uid, debug_id
from holdfast.core.records import Event, JobSummary

from ..big_answers import answer_big
from ..call import Call
from ..endpoints import Who, endpoint
from ..times import iso
from .lookup import find_framework, role_keys

MAX_SHOWN = 10_000  # the newest; older ones are counted
_PAGE = 1000
_WARNINGS = frozenset({"failed", "task-failed", "retry", "task-retry", "time-limit", "warning"})
_REASONS = {
    "submitted": "Created",
    "placed": "Scheduled",
    "task-started": "Started",
    "task-succeeded": "Completed",
    "task-failed": "Failed",
    "task-stopped": "Killing",
    "stop-requested": "Killing",
    "retry": "BackOff",
    "task-retry": "BackOff",
}


@endpoint("GET", "/v2/jobs/{framework}/events", who=Who.READER, note="Normal events are kept, too")
async def list_job_events(call: Call) -> Response:
    found = await find_framework(call, call.path("framework"))
    await call.wait_for_slots(large=True)  # a job that is retried for ever has ever more of them
    jobs = call.services.jobs
    record = await jobs.record(call.actor, found.id)
    name, roles = debug_id(found.user, found.name), role_keys(record.job)
    history = _History(record.summary, record.exit, name, roles, wanted=call.query("type") or None)
    after = 0
    while events := await jobs.events(call.actor, found.id, after=after, limit=_PAGE):
        await asyncio.to_thread(history.add, events)
        after = events[-1].seq
    history.add_waiting(jobs.waiting(record) or ())
    return await answer_big(history.answer, len(history.newest))


@dataclass(slots=True)
class _History:
    """Events as they come, oldest first; the newest are kept in the shape of the answer."""

    summary: JobSummary
    exit: Exit | None  # of the job
    framework: str  # its name in events
    spelled: Mapping[str, str]  # its roles
    wanted: str | None  # Warning or Normal
    newest: deque[dict[str, Any]] = field(default_factory=lambda: deque(maxlen=MAX_SHOWN))
    total: int = 0
    retried: Counter[tuple[int | None, str | None]] = field(default_factory=Counter)  # which try a task is at

    def add(self, events: Iterable[Event]) -> None:
        for event in events:
            self._keep(self._item(event))
            if event.kind == "task-retry":
                self.retried[event.attempt, event.task] += 1

    def add_waiting(self, reasons: Iterable[str]) -> None:
        """Waiting is no event of ours, but clients look for its reasons here."""
        now = datetime.now(UTC)
        for reason in reasons:
            item = self._shape(f"waiting-{reason}", "Warning", "FailedScheduling", reason, now)
            self._keep({**item, "firstTimestamp": iso(min(self.summary.submitted_at, now))})

    def answer(self) -> dict[str, Any]:
        data = list(reversed(self.newest))
        data.sort(key=lambda item: str(item["lastTimestamp"]), reverse=True)  # equal times stay as they are
        return {"totalCount": self.total, "data": data}

    def _keep(self, item: dict[str, Any]) -> None:
        if self.wanted in (None, item["type"]):
            self.total += 1
            self.newest.append(item)

    def _item(self, event: Event) -> dict[str, Any]:
        kind = "Warning" if event.kind in _WARNINGS else "Normal"
        item = self._shape(str(event.seq), kind, self._reason(event), event.message, event.at)
        return {**item, **self._about_task(event)} if event.task else item

    def _reason(self, event: Event) -> str:
        if event.kind == "failed" and self.exit is not None and self.exit.kind is ExitKind.REFUSED:
            return spec_of(self.exit).phrase
        return _REASONS.get(event.kind, event.kind.title().replace("-", ""))

    def _about_task(self, event: Event) -> dict[str, Any]:
        role, _, index = (event.task or "").rpartition("-")
        spelled = self.spelled.get(role, role)
        number = self.retried[event.attempt, event.task]
        attempt = event.attempt if event.attempt is not None else self.summary.attempt
        return {
            "podUid": container_uid(str(AttemptId(self.summary.id, attempt, role, int(index), number))),
            "taskroleName": spelled,
            "taskName": f"{self.framework}-{spelled}-{index}",
            "taskIndex": int(index),
        }

    def _shape(self, key: str, kind: str, reason: str, message: str, at: datetime) -> dict[str, Any]:
        return {
            "uid": str(uuid5(NAMESPACE_OID, f"{self.summary.id} {key}")),
            "frameworkName": self.framework,
            "podUid": None,
            "taskroleName": None,
            "taskName": None,
            "taskIndex": None,
            "type": kind,
            "reason": reason,
            "message": message,
            "firstTimestamp": iso(at),
            "lastTimestamp": iso(at),
            "count": 1,
            "sourceComponent": "holdfast",
            "sourceHost": None,
        }
