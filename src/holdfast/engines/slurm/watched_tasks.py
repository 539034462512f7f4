"""The tasks that the server watches: those that wait, start or run; and the sizes of their logs.

The folder of a task may be on a file server that does not respond: it is only read in threads.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from threading import Lock

from holdfast.core.attempt import ObservedState
from holdfast.engines.embedded.lifecycle.recorder import LogRecorder
from holdfast.engines.embedded.lifecycle.timeline import TimelineRecord

from .slurm_folder import SlurmFolder

_FOLLOW_TIME = 30.0  # seconds that a log is looked at often after its last reader
_ACTIVE_TIME = 5.0  # seconds that a followed log is looked at very often after its task was started or has written
_MIN_LOG_INTERVAL = 0.03  # seconds between two looks at such logs
_WAITING = (ObservedState.QUEUED, ObservedState.STARTING)


class PolledRecorder(LogRecorder):
    """Returns the sizes of the last poll to callers on the event loop."""

    def __init__(self, folder: SlurmFolder, cap: int) -> None:
        super().__init__(folder, cap)
        self._lock = Lock()

    def record_sizes(self, *, final: bool = False) -> TimelineRecord:
        return self._last_record

    def poll_sizes(self, *, final: bool = False) -> bool:
        """Record the sizes of both streams; return whether they have changed. Blocking."""
        with self._lock:
            before = self._last_record
            return not self.ended and super().record_sizes(final=final) != before

    def finish_recording(self) -> None:
        self.ended = True
        self.wake_readers()


@dataclass(slots=True, eq=False)
class WatchedTask:
    attempt_id: str
    recorder: PolledRecorder
    state: ObservedState | None = None  # as reported last
    message: str = ""  # why it waits, as reported last
    followed_until: float = field(default=float("-inf"))  # in the event loop's time
    active_at: float = field(default=float("-inf"))  # when its state or its log has changed last, in the same time

    def append_log_once(self, folder: SlurmFolder, key: str, text: str) -> None:
        """Append to its log, after everything that it has written so far to either stream. Blocking."""
        self.recorder.poll_sizes(final=True)
        folder.append_log_once(key, text)
        self.recorder.poll_sizes(final=True)


class WatchedTasks:
    def __init__(self, log_cap: int) -> None:
        self._log_cap = log_cap
        self._tasks: dict[str, WatchedTask] = {}
        self._has_new_reader = asyncio.Event()  # of a log that was not followed before

    def __iter__(self) -> Iterator[WatchedTask]:
        return iter(list(self._tasks.values()))

    def __len__(self) -> int:
        return len(self._tasks)

    def list_active(self) -> list[WatchedTask]:
        """Return those that are not known to wait."""
        return [task for task in self if task.state not in _WAITING]

    def get(self, attempt_id: str) -> WatchedTask | None:
        return self._tasks.get(attempt_id)

    def open_recorder(self, folder: SlurmFolder) -> PolledRecorder:
        """Blocking."""
        return PolledRecorder(folder, self._log_cap)

    def add(self, attempt_id: str, recorder: PolledRecorder, now: float) -> WatchedTask:
        return self._tasks.setdefault(attempt_id, WatchedTask(attempt_id, recorder, active_at=now))

    def remove(self, attempt_id: str) -> WatchedTask | None:
        return self._tasks.pop(attempt_id, None)

    def follow(self, attempt_id: str, now: float) -> PolledRecorder | None:
        """Return the recorder of a task, and look at its logs often from now on."""
        task = self._tasks.get(attempt_id)
        if task is None:
            return None
        if task.followed_until < now:
            self._has_new_reader.set()
        task.followed_until = now + _FOLLOW_TIME
        return task.recorder

    async def wait_for_growth(self, interval: float, min_interval: float) -> None:
        """Wait until logs that are followed may have grown: at most `interval` seconds, and less if a task is active or
        gets its first reader."""
        now = asyncio.get_running_loop().time()
        is_active = any(task.active_at > now - _ACTIVE_TIME for task in self.list_followed(now))
        self._has_new_reader.clear()
        with suppress(TimeoutError):
            async with asyncio.timeout(min(interval, max(_MIN_LOG_INTERVAL, min_interval)) if is_active else interval):
                await self._has_new_reader.wait()

    def list_followed(self, now: float) -> list[WatchedTask]:
        return [task for task in self if task.followed_until >= now]

    def record_final_sizes(self, attempt_id: str, folder: SlurmFolder) -> None:
        """Record the sizes of the logs of a task that has ended, watched or not. Blocking."""
        task = self._tasks.get(attempt_id)
        (task.recorder if task else self.open_recorder(folder)).poll_sizes(final=True)


def poll_logs(tasks: list[WatchedTask]) -> list[WatchedTask]:
    """Record the sizes of their logs; return those that have grown. Blocking."""
    return [task for task in tasks if task.recorder.poll_sizes()]
