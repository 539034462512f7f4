"""Watches running tasks on the event loop: their exits by pidfds, the growth of their logs and notes by inotify."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Iterator
from contextlib import suppress

from ..libc import Inotify
from ..processes import open_namespace_init_pidfd
from .live_tasks import LiveTask, get_sandbox_pids
from .notes import NOTES_FOLDER, read_notes

_WATCH_DELAY = 0.05  # seconds a task runs before its log is watched by default
_EVENT_INTERVAL = 0.05  # seconds between two reads of inotify events, however fast logs grow
_POLL_INTERVAL = 0.1  # seconds between two checks without inotify
_SANDBOX_END_TIMEOUT = 10.0  # seconds for the last processes of a sandbox to exit


class TaskWatcher:
    """Everything here runs on the event loop."""

    def __init__(self, on_end: Callable[[LiveTask], None], on_notes: Callable[[LiveTask], None]) -> None:
        self._on_end = on_end
        self._on_notes = on_notes
        self._loop = asyncio.get_running_loop()
        self._live: dict[str, LiveTask] = {}
        self._by_watch_number: dict[int, LiveTask] = {}
        self._inotify: Inotify | None = None
        with suppress(OSError):
            self._inotify = Inotify()
            self._loop.add_reader(self._inotify.fd, self._handle_inotify_events)

    def __iter__(self) -> Iterator[LiveTask]:
        return iter(list(self._live.values()))

    def get(self, attempt_id: str) -> LiveTask | None:
        return self._live.get(attempt_id)

    def add(self, task: LiveTask) -> None:
        """Watch it, unless it is already watched."""
        if task.attempt_id in self._live:
            self._close_pidfd(task)
            return
        self._live[task.attempt_id] = task
        task.watch_timer = self._loop.call_later(_WATCH_DELAY, self.follow_logs, task)
        if task.pidfd is not None:
            self._loop.add_reader(task.pidfd, self._handle_runner_end, task)
        else:
            self._poll_runner(task)

    def close(self) -> None:
        for task in self:
            self._remove_task(task)
        if self._inotify is not None:
            self._loop.remove_reader(self._inotify.fd)
            self._inotify.close()

    # --- exits --------------------------------------------------------------------------------------------------------

    def _poll_runner(self, task: LiveTask) -> None:
        """Poll a runner without a pidfd, such as one in another PID namespace."""
        if task.folder.is_alive():
            task.poll_timer = self._loop.call_later(_POLL_INTERVAL, self._poll_runner, task)
        else:
            self._handle_runner_end(task)

    def handle_runner_end_once(self, task: LiveTask) -> None:
        """Handle the exit of its runner, unless that was done before."""
        if self._live.get(task.attempt_id) is task and not task.runner_ended:
            self._handle_runner_end(task)

    def _handle_runner_end(self, task: LiveTask) -> None:
        """Wait for the sandbox's last processes; their resources are not free before."""
        self._close_pidfd(task)
        task.runner_ended = True
        with suppress(ChildProcessError):
            pid, _, waited = os.wait4(task.pid, os.WNOHANG)
            task.rusage = waited if pid else None
        task.claim = task.folder.read_claim()
        remains = get_sandbox_pids(task.claim)
        task.init_pid = remains[0] if remains else None
        task.pidfd = open_namespace_init_pidfd(*remains) if remains else None
        if task.pidfd is None:
            self._handle_sandbox_end(task)
            return
        self._loop.add_reader(task.pidfd, self._handle_sandbox_end, task)
        task.poll_timer = self._loop.call_later(_SANDBOX_END_TIMEOUT, self._handle_sandbox_end, task)

    def _handle_sandbox_end(self, task: LiveTask) -> None:
        self._close_pidfd(task)
        if self._live.get(task.attempt_id) is task:
            self._remove_task(task)
            if task.init_pid is not None:
                with suppress(ChildProcessError):  # reaped by us only as the init of a container
                    os.waitpid(task.init_pid, os.WNOHANG)
            task.recorder.finish_recording()
            task.gone.set()
            self._on_end(task)

    def _remove_task(self, task: LiveTask) -> None:
        self._live.pop(task.attempt_id, None)
        task.cancel_timers()
        self._close_pidfd(task)
        for number in (task.watch, task.notes_watch):
            if number is not None and self._inotify is not None:
                self._by_watch_number.pop(number, None)
                self._inotify.unwatch(number)

    def _close_pidfd(self, task: LiveTask) -> None:
        if task.pidfd is not None:
            self._loop.remove_reader(task.pidfd)  # harmless if there is none
            os.close(task.pidfd)
            task.pidfd = None

    # --- logs -----------------------------------------------------------------------------------------------------

    def follow_logs(self, task: LiveTask) -> None:
        if task.watch is not None or self._live.get(task.attempt_id) is not task:
            return
        if task.watch_timer is not None:
            task.watch_timer.cancel()
            task.watch_timer = None
        if self._inotify is not None:
            task.watch = self._inotify.watch(task.folder.path)
            task.notes_watch = self._inotify.watch(task.folder[NOTES_FOLDER], names=True)
        if task.watch is not None and task.notes_watch is not None:
            self._by_watch_number[task.watch] = self._by_watch_number[task.notes_watch] = task
            self._record_growth(task)
            self._update_notes(task)
        else:
            self._poll_growth(task)

    def _update_notes(self, task: LiveTask) -> None:
        """Read its notes, and report changes."""
        notes = read_notes(task.folder)
        if notes != task.notes:
            task.notes = notes
            self._on_notes(task)

    def _poll_growth(self, task: LiveTask) -> None:
        self._record_growth(task)
        self._update_notes(task)
        task.watch_timer = self._loop.call_later(_POLL_INTERVAL, self._poll_growth, task)

    def _handle_inotify_events(self) -> None:
        """Handle events at once, then pause: a fast log must cost almost nothing."""
        assert self._inotify is not None
        for number in set(self._inotify.read_changed_watches()):
            for task in [self._by_watch_number.get(number)] if number >= 0 else list(self._by_watch_number.values()):
                if task is not None and number != task.notes_watch:
                    self._record_growth(task)
                if task is not None and number in (-1, task.notes_watch):
                    self._update_notes(task)
        self._loop.remove_reader(self._inotify.fd)
        self._loop.call_later(_EVENT_INTERVAL, self._resume_inotify_events)

    def _resume_inotify_events(self) -> None:
        if self._inotify is not None and self._inotify.is_open:
            self._loop.add_reader(self._inotify.fd, self._handle_inotify_events)

    def _record_growth(self, task: LiveTask) -> None:
        task.recorder.record_sizes()
        task.recorder.wake_readers()
        if task.recorder.has_partial_line and task.record_timer is None:
            task.record_timer = self._loop.call_later(_POLL_INTERVAL, self._record_partial_line, task)

    def _record_partial_line(self, task: LiveTask) -> None:
        task.record_timer = None
        self._record_growth(task)
