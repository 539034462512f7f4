"""Debuggers in the tasks of one job, and events about waiting ones."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime, timedelta
from pathlib import PurePosixPath

from holdfast.core.attempt import Debugger, JobSnapshot, Observation, ObservedState
from holdfast.core.attempt_id import AttemptId
from holdfast.core.messages import msg
from holdfast.core.records import NewEvent

EXPIRY_MARGIN = timedelta(seconds=10)  # until a program continues by itself
MIN_EVENT_INTERVAL = timedelta(minutes=1)  # between two events of one task, however often it stops


@dataclass(slots=True)
class JobDebuggers:
    _by_attempt: dict[str, tuple[Debugger, ...]] = field(default_factory=dict)
    _event_times: dict[str, datetime] = field(default_factory=dict)

    def group_by_task(self) -> dict[str, tuple[Debugger, ...]]:
        return {_parse_task(attempt_id): found for attempt_id, found in self._by_attempt.items()}

    def get_debuggers_by_task(self, now: datetime) -> dict[str, tuple[Debugger, ...]]:
        """Return debuggers by task without expired ones: a killed program leaves its entry behind."""
        found = {
            task: tuple(each for each in debuggers if not _has_expired(each, now))
            for task, debuggers in self.group_by_task().items()
        }
        return {task: debuggers for task, debuggers in found.items() if debuggers}

    def record_observation(self, snapshot: JobSnapshot, observation: Observation, now: datetime) -> NewEvent | None:
        """Record an observation and return an event for a new debugger."""
        attempt_id = observation.attempt_id
        before = {debugger.id for debugger in self._by_attempt.get(attempt_id, ()) if _is_unattended(debugger)}
        found = observation.debuggers if observation.seen in (ObservedState.RUNNING, ObservedState.HELD) else ()
        if found:
            self._by_attempt[attempt_id] = found
        else:
            self._by_attempt.pop(attempt_id, None)
        new = [debugger for debugger in found if _is_unattended(debugger) and debugger.id not in before]
        reported_at = self._event_times.get(attempt_id)
        if not new or (reported_at is not None and timedelta() <= now - reported_at < MIN_EVENT_INTERVAL):
            return None
        self._event_times[attempt_id] = now
        return _build_event(attempt_id, snapshot, new[0], now)

    def clear(self) -> None:
        self._by_attempt.clear()
        self._event_times.clear()


def format_location(debugger: Debugger) -> str:
    """Return a location such as train.py:42."""
    return f"{PurePosixPath(debugger.file).name}:{debugger.line}"


def _parse_task(attempt_id: str) -> str:
    return AttemptId.parse(attempt_id).task


def _is_unattended(debugger: Debugger) -> bool:
    return debugger.waits and not debugger.attached


def _has_expired(debugger: Debugger, now: datetime) -> bool:
    return debugger.until is not None and not debugger.attached and now - debugger.until > EXPIRY_MARGIN


def _build_event(attempt_id: str, snapshot: JobSnapshot, debugger: Debugger, now: datetime) -> NewEvent:
    task = _parse_task(attempt_id)
    until = msg(" until {until} UTC", until=f"{debugger.until:%Y-%m-%d %H:%M:%S}") if debugger.until else ""
    text = msg(
        "A debugger is waiting at {debugger} in {task}{until}",
        debugger=format_location(debugger),
        task=task,
        until=until,
    )
    return NewEvent(kind="debugger-waiting", message=text, at=now, task=task, attempt=snapshot.attempt)
