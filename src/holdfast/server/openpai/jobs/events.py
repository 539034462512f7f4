"""GET /v2/jobs/<user>~<job>/events: the events of a job, newest first."""

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
from holdfast.core.exits.table import find_spec
from holdfast.core.identity import build_container_uid, build_debug_id
from holdfast.core.records import Event, JobSummary

from ..call import Call
from ..endpoints import AccessLevel, endpoint
from ..large_responses import respond_large_json
from ..times import to_iso_text
from .lookup import find_job_by_framework, map_role_keys

MAX_EVENTS = 10_000  # the newest; older ones are only counted
_PAGE_SIZE = 1000
_WARNING_KINDS = frozenset({"failed", "task-failed", "retry", "task-retry", "time-limit", "warning"})
_REASONS_BY_KIND = {
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


@endpoint("GET", "/v2/jobs/{framework}/events", who=AccessLevel.READER, note="events of type Normal are included")
async def list_job_events(call: Call) -> Response:
    found = await find_job_by_framework(call, call.get_path_text("framework"))
    await call.wait_for_slots(large=True)  # a job with unlimited retries has ever more of them
    jobs = call.services.jobs
    record = await jobs.load_detail(call.actor, found.id)
    name, roles = build_debug_id(found.user, found.name), map_role_keys(record.job)
    history = _EventHistory(record.summary, record.exit, name, roles, wanted_type=call.get_query_text("type") or None)
    after = 0
    while events := await jobs.list_events(call.actor, found.id, after=after, limit=_PAGE_SIZE):
        await asyncio.to_thread(history.add_events, events)
        after = events[-1].seq
    history.add_wait_reasons(jobs.list_wait_reasons(record) or ())
    return await respond_large_json(history.build_response_body, len(history.newest))


@dataclass(slots=True)
class _EventHistory:
    """Collects events, oldest first; keeps the newest in the shape of the response."""

    summary: JobSummary
    exit: Exit | None  # of the job
    framework: str  # its name in events
    role_keys: Mapping[str, str]  # its roles
    wanted_type: str | None  # Warning or Normal
    newest: deque[dict[str, Any]] = field(default_factory=lambda: deque(maxlen=MAX_EVENTS))
    total: int = 0
    retry_counts: Counter[tuple[int | None, str | None]] = field(default_factory=Counter)  # current try of each task

    def add_events(self, events: Iterable[Event]) -> None:
        for event in events:
            self._add_item(self._event_to_json(event))
            if event.kind == "task-retry":
                self.retry_counts[event.attempt, event.task] += 1

    def add_wait_reasons(self, reasons: Iterable[str]) -> None:
        """Add the reasons for waiting: they are no events, but clients expect them here."""
        now = datetime.now(UTC)
        for reason in reasons:
            item = self._build_item(f"waiting-{reason}", "Warning", "FailedScheduling", reason, now)
            self._add_item({**item, "firstTimestamp": to_iso_text(min(self.summary.submitted_at, now))})

    def build_response_body(self) -> dict[str, Any]:
        data = list(reversed(self.newest))
        data.sort(key=lambda item: str(item["lastTimestamp"]), reverse=True)  # stable for equal times
        return {"totalCount": self.total, "data": data}

    def _add_item(self, item: dict[str, Any]) -> None:
        if self.wanted_type in (None, item["type"]):
            self.total += 1
            self.newest.append(item)

    def _event_to_json(self, event: Event) -> dict[str, Any]:
        kind = "Warning" if event.kind in _WARNING_KINDS else "Normal"
        item = self._build_item(str(event.seq), kind, self._get_reason(event), event.message, event.at)
        return {**item, **self._task_to_json(event)} if event.task else item

    def _get_reason(self, event: Event) -> str:
        if event.kind == "failed" and self.exit is not None and self.exit.kind is ExitKind.REFUSED:
            return find_spec(self.exit).phrase
        return _REASONS_BY_KIND.get(event.kind, event.kind.title().replace("-", ""))

    def _task_to_json(self, event: Event) -> dict[str, Any]:
        role, _, index = (event.task or "").rpartition("-")
        spelled = self.role_keys.get(role, role)
        number = self.retry_counts[event.attempt, event.task]
        attempt = event.attempt if event.attempt is not None else self.summary.attempt
        return {
            "podUid": build_container_uid(str(AttemptId(self.summary.id, attempt, role, int(index), number))),
            "taskroleName": spelled,
            "taskName": f"{self.framework}-{spelled}-{index}",
            "taskIndex": int(index),
        }

    def _build_item(self, key: str, kind: str, reason: str, message: str, at: datetime) -> dict[str, Any]:
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
            "firstTimestamp": to_iso_text(at),
            "lastTimestamp": to_iso_text(at),
            "count": 1,
            "sourceComponent": "holdfast",
            "sourceHost": None,
        }
