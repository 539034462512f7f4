"""The tasks that the server watches: those that wait, start or run."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from holdfast.core.attempt import ObservedState
from holdfast.engines.embedded.lifecycle.recorder import LogRecorder

from .slurm_folder import SlurmFolder

_FOLLOW_TIME = 30.0  # seconds that a log is looked at often after its last reader


@dataclass(slots=True, eq=False)
class WatchedTask:
    attempt_id: str
    recorder: LogRecorder
    state: ObservedState | None = None  # as reported last
    followed_until: float = 0.0  # in the event loop's time


class WatchedTasks:
    def __init__(self, log_cap: int) -> None:
        self._log_cap = log_cap
        self._tasks: dict[str, WatchedTask] = {}

    def __iter__(self) -> Iterator[WatchedTask]:
        return iter(list(self._tasks.values()))

    def get(self, attempt_id: str) -> WatchedTask | None:
        return self._tasks.get(attempt_id)

    def add(self, attempt_id: str, folder: SlurmFolder) -> WatchedTask:
        known = self._tasks.get(attempt_id)
        if known is None:
            known = self._tasks[attempt_id] = WatchedTask(attempt_id, LogRecorder(folder, self._log_cap))
        return known

    def remove(self, attempt_id: str) -> WatchedTask | None:
        return self._tasks.pop(attempt_id, None)

    def follow(self, attempt_id: str, now: float) -> LogRecorder | None:
        """Return the recorder of a task, and look at its logs often from now on."""
        task = self._tasks.get(attempt_id)
        if task is None:
            return None
        task.followed_until = now + _FOLLOW_TIME
        return task.recorder

    def record_logs(self, now: float, *, followed_only: bool) -> None:
        """Record the sizes of the logs, and wake their readers."""
        for task in self:
            if followed_only and task.followed_until < now:
                continue
            before = task.recorder.count_kept_bytes()
            task.recorder.record_sizes()
            if task.recorder.count_kept_bytes() != before or task.followed_until >= now:
                task.recorder.wake_readers()
