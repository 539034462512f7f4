"""Debuggers that wait in the tasks of one job: who they are, and when that is worth an event."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime, timedelta
from pathlib import PurePosixPath

from holdfast.core.attempt import Debugger, JobSnapshot, Observation, Seen
from holdfast.core.attempt_id import AttemptId
from holdfast.core.messages import msg
from holdfast.core.records import NewEvent

LATE = timedelta(seconds=10)  # that a program may take to go on by itself
MIN_INTERVAL = timedelta(minutes=1)  # between two events of one task, however often it stops


@dataclass(slots=True)
class Debuggers:
    _by_attempt: dict[str, tuple[Debugger, ...]] = field(default_factory=dict)
    _told_at: dict[str, datetime] = field(default_factory=dict)

    def by_task(self) -> dict[str, tuple[Debugger, ...]]:
        return {_task_of(attempt_id): found for attempt_id, found in self._by_attempt.items()}

    def present(self, now: datetime) -> dict[str, tuple[Debugger, ...]]:
        """The same, less those whose time is over: a program that was killed leaves its note behind."""
        found = {
            task: tuple(each for each in debuggers if not _is_over(each, now))
            for task, debuggers in self.by_task().items()
        }
        return {task: debuggers for task, debuggers in found.items() if debuggers}

    def hear(self, snapshot: JobSnapshot, observation: Observation, now: datetime) -> NewEvent | None:
        """What is to be told of it."""
        attempt_id = observation.attempt_id
        before = {debugger.id for debugger in self._by_attempt.get(attempt_id, ()) if _calls(debugger)}
        found = observation.debuggers if observation.seen in (Seen.RUNNING, Seen.HELD) else ()
        if found:
            self._by_attempt[attempt_id] = found
        else:
            self._by_attempt.pop(attempt_id, None)
        new = [debugger for debugger in found if _calls(debugger) and debugger.id not in before]
        told = self._told_at.get(attempt_id)
        if not new or (told is not None and timedelta() <= now - told < MIN_INTERVAL):
            return None
        self._told_at[attempt_id] = now
        return _event(attempt_id, snapshot, new[0], now)

    def clear(self) -> None:
        self._by_attempt.clear()
        self._told_at.clear()


def place_of(debugger: Debugger) -> str:
    """train.py:42"""
    return f"{PurePosixPath(debugger.file).name}:{debugger.line}"


def _task_of(attempt_id: str) -> str:
    return AttemptId.parse(attempt_id).task


def _calls(debugger: Debugger) -> bool:
    return debugger.waits and not debugger.attached


def _is_over(debugger: Debugger, now: datetime) -> bool:
    return debugger.until is not None and not debugger.attached and now - debugger.until > LATE


def _event(attempt_id: str, snapshot: JobSnapshot, debugger: Debugger, now: datetime) -> NewEvent:
    task = _task_of(attempt_id)
    until = msg(" until {until} UTC", until=f"{debugger.until:%Y-%m-%d %H:%M:%S}") if debugger.until else ""
    text = msg("A debugger waits at {debugger} in {task}{until}", debugger=place_of(debugger), task=task, until=until)
    return NewEvent(kind="debugger-waiting", message=text, at=now, task=task, attempt=snapshot.attempt)
