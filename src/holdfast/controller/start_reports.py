"""What the tasks of one job wait for in an engine that queues them, and when that was reported last."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime

from holdfast.core.attempt import JobSnapshot, Observation
from holdfast.core.attempt_id import AttemptId
from holdfast.core.planning.start_progress import (
    START_EVENT,
    StartProgress,
    count_messages,
    find_quiet_end,
    is_start_progress,
)
from holdfast.core.records import NewEvent


@dataclass(slots=True)
class StartReports:
    waiting: dict[str, Observation] = field(default_factory=dict)  # by attempt id
    attempt: int = 0  # of the job, to which the next two belong
    count: int = 0  # events
    last_at: datetime | None = None

    def record_observation(self, observation: Observation) -> None:
        if is_start_progress(observation):
            self.waiting[observation.attempt_id] = observation
        else:
            self.waiting.pop(observation.attempt_id, None)

    def build_progress(self, attempt: int) -> StartProgress:
        """Return the progress of the tasks of one attempt of the job."""
        current = [seen for id, seen in self.waiting.items() if AttemptId.parse(id).attempt == attempt]
        quiet_until = find_quiet_end(self.count, self.last_at) if self.attempt == attempt else None
        return StartProgress(counts=count_messages(current), quiet_until=quiet_until)

    def record_events(self, after: JobSnapshot, events: Iterable[NewEvent]) -> None:
        """Record the events of a plan that was saved."""
        if after.attempt != self.attempt:
            self.attempt, self.count, self.last_at = after.attempt, 0, None
            self.waiting = {
                id: seen for id, seen in self.waiting.items() if AttemptId.parse(id).attempt >= after.attempt
            }
        for event in events:
            if event.kind == START_EVENT:
                self.count, self.last_at = self.count + 1, event.at
