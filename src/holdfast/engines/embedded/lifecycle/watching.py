"""Watches running tasks from the event loop: their ends by pidfds, the growth of their logs and their
notes by what the kernel tells."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Iterator
from contextlib import suppress

from ..libc import Inotify
from ..processes import open_namespace_init
from .live_tasks import LiveTask, pids_of
from .notes import FOLDER, read_notes

_WATCH_AFTER = 0.05  # seconds a task lives before its log is watched unasked
_NOTICE_INTERVAL = 0.05  # seconds between two looks at the notices, however fast logs grow
_POLL = 0.1  # seconds between looks where the kernel gives no notice
_REMAINS = 10.0  # seconds the last processes of a sandbox may take to go


class Watch:
    """Everything here runs on the event loop."""

    def __init__(self, on_end: Callable[[LiveTask], None], on_notes: Callable[[LiveTask], None]) -> None:
        self._on_end = on_end
        self._on_notes = on_notes
        self._loop = asyncio.get_running_loop()
        self._live: dict[str, LiveTask] = {}
        self._by_number: dict[int, LiveTask] = {}
        self._inotify: Inotify | None = None
        with suppress(OSError):
            self._inotify = Inotify()
            self._loop.add_reader(self._inotify.fd, self._noticed)

    def __iter__(self) -> Iterator[LiveTask]:
        return iter(list(self._live.values()))

    def get(self, attempt_id: str) -> LiveTask | None:
        return self._live.get(attempt_id)

    def add(self, task: LiveTask) -> None:
        """Watch it, unless it is being watched already."""
        if task.attempt_id in self._live:
            self._let_go(task)
            return
        self._live[task.attempt_id] = task
        task.watch_timer = self._loop.call_later(_WATCH_AFTER, self.follow, task)
        if task.pidfd is not None:
            self._loop.add_reader(task.pidfd, self._runner_ended, task)
        else:
            self._poll_end(task)

    def close(self) -> None:
        for task in self:
            self._drop(task)
        if self._inotify is not None:
            self._loop.remove_reader(self._inotify.fd)
            self._inotify.close()

    # --- ends -----------------------------------------------------------------------------------------------------

    def _poll_end(self, task: LiveTask) -> None:
        """For a runner we cannot hold on to, such as one seen from another PID namespace."""
        if task.folder.is_alive():
            task.poll_timer = self._loop.call_later(_POLL, self._poll_end, task)
        else:
            self._runner_ended(task)

    def check_end(self, task: LiveTask) -> None:
        """Its runner is known to have ended: see to it, unless that was seen before."""
        if self._live.get(task.attempt_id) is task and not task.runner_ended:
            self._runner_ended(task)

    def _runner_ended(self, task: LiveTask) -> None:
        """The sandbox's last processes may still be going; what they hold is not free until they have gone."""
        self._let_go(task)
        task.runner_ended = True
        with suppress(ChildProcessError):
            pid, _, waited = os.wait4(task.pid, os.WNOHANG)
            task.waited = waited if pid else None
        task.claim = task.folder.read_claim()
        remains = pids_of(task.claim)
        task.init_pid = remains[0] if remains else None
        task.pidfd = open_namespace_init(*remains) if remains else None
        if task.pidfd is None:
            self._gone(task)
            return
        self._loop.add_reader(task.pidfd, self._gone, task)
        task.poll_timer = self._loop.call_later(_REMAINS, self._gone, task)

    def _gone(self, task: LiveTask) -> None:
        self._let_go(task)
        if self._live.get(task.attempt_id) is task:
            self._drop(task)
            if task.init_pid is not None:
                with suppress(ChildProcessError):  # ours to bury only if we are the init of a container
                    os.waitpid(task.init_pid, os.WNOHANG)
            task.recorder.finish()
            task.gone.set()
            self._on_end(task)

    def _drop(self, task: LiveTask) -> None:
        self._live.pop(task.attempt_id, None)
        task.cancel_timers()
        self._let_go(task)
        for number in (task.watch, task.notes_watch):
            if number is not None and self._inotify is not None:
                self._by_number.pop(number, None)
                self._inotify.unwatch(number)

    def _let_go(self, task: LiveTask) -> None:
        if task.pidfd is not None:
            self._loop.remove_reader(task.pidfd)  # harmless where there is none
            os.close(task.pidfd)
            task.pidfd = None

    # --- logs -----------------------------------------------------------------------------------------------------

    def follow(self, task: LiveTask) -> None:
        """Have notice of the growth of its logs."""
        if task.watch is not None or self._live.get(task.attempt_id) is not task:
            return
        if task.watch_timer is not None:
            task.watch_timer.cancel()
            task.watch_timer = None
        if self._inotify is not None:
            task.watch = self._inotify.watch(task.folder.path)
            task.notes_watch = self._inotify.watch(task.folder[FOLDER], names=True)
        if task.watch is not None and task.notes_watch is not None:
            self._by_number[task.watch] = self._by_number[task.notes_watch] = task
            self._record(task)
            self._hear(task)
        else:
            self._poll_growth(task)

    def _hear(self, task: LiveTask) -> None:
        """Read its notes, and tell of what is new."""
        notes = read_notes(task.folder)
        if notes != task.notes:
            task.notes = notes
            self._on_notes(task)

    def _poll_growth(self, task: LiveTask) -> None:
        self._record(task)
        self._hear(task)
        task.watch_timer = self._loop.call_later(_POLL, self._poll_growth, task)

    def _noticed(self) -> None:
        """Look at once, then not again for a while: a fast log must cost next to nothing."""
        assert self._inotify is not None
        for number in set(self._inotify.read()):
            for task in [self._by_number.get(number)] if number >= 0 else list(self._by_number.values()):
                if task is not None and number != task.notes_watch:
                    self._record(task)
                if task is not None and number in (-1, task.notes_watch):
                    self._hear(task)
        self._loop.remove_reader(self._inotify.fd)
        self._loop.call_later(_NOTICE_INTERVAL, self._listen_again)

    def _listen_again(self) -> None:
        if self._inotify is not None and self._inotify.is_open:
            self._loop.add_reader(self._inotify.fd, self._noticed)

    def _record(self, task: LiveTask) -> None:
        task.recorder.record()
        task.recorder.wake()
        if task.recorder.holds_back and task.record_timer is None:
            task.record_timer = self._loop.call_later(_POLL, self._record_held_back, task)

    def _record_held_back(self, task: LiveTask) -> None:
        task.record_timer = None
        self._record(task)
