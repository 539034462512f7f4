"""Observes tasks in containers: by the server's claim and the task's process first, then by the daemon.

A request that fails raises DaemonUnavailable: a task is never reported as absent or lost because of it.
"""

from __future__ import annotations

import asyncio
import os
import re
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial

from holdfast.core.attempt import Observation, ObservedState
from holdfast.core.exits.exit import Cause
from holdfast.core.messages import msg
from holdfast.engines.embedded.cgroups import find_process_cgroups
from holdfast.engines.embedded.folder_content import (
    TICKS_PER_SECOND,
    Claim,
    StartNote,
    add_notes,
    build_dead_observation,
    build_running_observation,
)
from holdfast.engines.embedded.lifecycle.disk_limits import ThreadRunner
from holdfast.engines.embedded.lifecycle.notes import read_notes
from holdfast.engines.embedded.lifecycle.recorder import LogRecorder
from holdfast.engines.embedded.lifecycle.task_folders import TaskFolders, was_out_of_memory
from holdfast.engines.embedded.lifecycle.task_observer import TaskObserver
from holdfast.engines.embedded.metrics.cgroup_metrics import read_kernel_file
from holdfast.engines.embedded.processes import read_start_ticks, read_uptime
from holdfast.engines.embedded.task_folder import KILLED_FILE, is_safe_id
from holdfast.engines.runner_report import RunnerReport

from .container_folder import ContainerFolder
from .daemon import Daemon, DaemonUnavailable
from .names import ContainerNames
from .task_end import CREATED_STATUS, ContainerState, EndKind, TaskEnd, decide_end

_EXIT_TIMEOUT = 10.0  # seconds for the daemon to notice that a container has exited
_EXIT_INTERVAL = 0.02  # seconds between two looks at it
_KILL_CODE = 137
UNKNOWN_NAMESPACE = 0


@dataclass(frozen=True, slots=True)
class ContainerObserver:
    daemon: Daemon
    names: ContainerNames
    folders: TaskFolders
    observer: TaskObserver
    run_in_thread: ThreadRunner
    boot: str
    was_stopped: Callable[[str], bool]  # whether this server has signalled the task

    async def observe(self, attempt_id: str) -> Observation:
        if not is_safe_id(attempt_id):
            return Observation(attempt_id=attempt_id, seen=ObservedState.ABSENT)
        seen = await self.run_in_thread(lambda: self._observe_by_files(attempt_id))
        if seen is not None:
            return seen
        container = await self._inspect_settled(attempt_id)
        started = await self.find_start_ticks(container) if container is not None else None
        return await self.run_in_thread(lambda: self._observe_by_container(attempt_id, container, started))

    def _get_folder(self, attempt_id: str) -> ContainerFolder:
        folder = self.folders.get_folder(attempt_id)
        assert isinstance(folder, ContainerFolder)
        return folder

    def _observe_by_files(self, attempt_id: str) -> Observation | None:
        """Return its state where the files and the process are enough; None if the daemon must be asked."""
        folder = self._get_folder(attempt_id)
        claim, note = folder.read_claim(), folder.read_start_note()
        if claim.lost:
            return _make_lost_observation(attempt_id, note, claim.lost)
        if claim.code is not None:
            return self.observer.observe_end(attempt_id, folder, note, claim)
        if note is not None and note.boot == self.boot and folder.is_alive():
            return _observe_running(attempt_id, folder, note)
        if claim.pid is not None and (note is None or note.boot == self.boot):
            return self._observe_dead_process(attempt_id, folder, note)
        return None

    def _observe_dead_process(
        self, attempt_id: str, folder: ContainerFolder, note: StartNote | None
    ) -> Observation | None:
        """Return its end if its runner reported it, or we killed it."""
        report = folder.read_report()
        killed = folder.has_file(KILLED_FILE)
        oom = was_out_of_memory(folder, note)
        if report.code is not None and (report.code == 0 or report.oom is not None):
            return self._record(
                attempt_id, folder, note, decide_end(report, None, started=True, stopped=killed, oom=oom)
            )
        if report.code is None and killed:
            return self._record(attempt_id, folder, note, TaskEnd(EndKind.EXITED, _KILL_CODE, oom))
        return None

    async def _inspect_settled(self, attempt_id: str) -> ContainerState | None:
        """Inspect its container. The daemon notices the exit of a known process a little later."""
        name = self.names.make_name(attempt_id)
        until = asyncio.get_running_loop().time() + _EXIT_TIMEOUT
        while True:
            found = await self.daemon.inspect(name)
            if found is None or not found.own:
                return None
            if found.status == CREATED_STATUS:
                return await self.run_in_thread(partial(self._correct_created, attempt_id, found))
            if not found.is_running or read_start_ticks(found.pid) is not None:
                return found
            if asyncio.get_running_loop().time() > until:
                raise DaemonUnavailable(msg("The container daemon does not report the end of a container."))
            await asyncio.sleep(_EXIT_INTERVAL)

    def _correct_created(self, attempt_id: str, container: ContainerState) -> ContainerState:
        """Correct the process of a container that is only known as created. A daemon that was killed while it started
        the container does not know that it runs, or has ended."""
        claimed = self._get_folder(attempt_id).read_report().claimed
        return replace(container, pid=find_first_pid(container.id) if claimed else 0)

    async def find_start_ticks(self, container: ContainerState) -> int | None:
        """Return when the first process of a running container started; None if it has just exited. Its pid may have
        been reused: it is the container's own by its cgroup. A rootless daemon may have none: then the container must
        still have that pid afterwards."""
        started = read_start_ticks(container.pid) if container.is_running else None
        if started is None or _is_in_cgroup(container):
            return started
        after = await self.daemon.inspect(container.id)
        return started if after is not None and after.is_running and after.pid == container.pid else None

    def _observe_by_container(
        self, attempt_id: str, container: ContainerState | None, started: int | None
    ) -> Observation:
        folder = self._get_folder(attempt_id)
        note, report, claim = folder.read_start_note(), folder.read_report(), folder.read_claim()
        if container is not None and container.is_running:
            if note is not None and started is not None and self.record_start(folder, note, container, started):
                return _observe_running(attempt_id, folder, note)
            return Observation(attempt_id=attempt_id, seen=ObservedState.RUNNING)
        if note is not None and note.boot != self.boot and report.code is None:
            return build_dead_observation(attempt_id, note, Claim(), self.boot)
        killed = folder.has_file(KILLED_FILE) or self.was_stopped(attempt_id)
        end = decide_end(
            report, container, started=claim.pid is not None, stopped=killed, oom=was_out_of_memory(folder, note)
        )
        return self._record(attempt_id, folder, note, end)

    def record_start(self, folder: ContainerFolder, note: StartNote, container: ContainerState, started: int) -> bool:
        """Record the process and the cgroups of a running container; False if it has just exited, or the
        disk is full."""
        groups = tuple(path for path in find_process_cgroups(container.pid) if container.id in path)
        try:
            namespace = _read_pid_namespace(container.pid)
            folder.write_start_note(replace(note, cgroups=groups))
            if folder.read_claim().pid is None:
                folder.record_start(container.pid, started, namespace)
        except OSError:
            return False
        return True

    def _record(self, attempt_id: str, folder: ContainerFolder, note: StartNote | None, end: TaskEnd) -> Observation:
        """Record its end, so that later looks need no daemon; return the observation. On a full disk it is not
        recorded, and the next look derives it again."""
        report = folder.read_report()
        if end.kind is EndKind.ABSENT:
            return Observation(attempt_id=attempt_id, seen=ObservedState.ABSENT)
        if not folder.exists():  # the folder was deleted, and its container was not
            return _make_lost_observation(attempt_id, note, EndKind.REMOVED.value)
        folder.delete_commands()
        if end.kind is EndKind.EXITED:
            if end.oom:
                with suppress(OSError):
                    folder.mark_out_of_memory()
            LogRecorder(folder, self.observer.options.log_cap).record_sizes(final=True)  # it may have ended unwatched
            ended = _find_end_time(report, folder.read_claim())
            with suppress(OSError):
                folder.record_end(end.code, ended)
            claim = replace(folder.read_claim(), command_code=end.code, code=end.code, ended=round(ended, 2))
            return self.observer.observe_end(attempt_id, folder, note, claim)
        with suppress(OSError):
            folder.record_loss(f"{end.kind} {end.code}")
        return _make_lost_observation(attempt_id, note, f"{end.kind} {end.code}")


def _observe_running(attempt_id: str, folder: ContainerFolder, note: StartNote) -> Observation:
    """Return the observation of a task that ran a moment ago. Should it have ended since, its watcher reports that."""
    running = build_running_observation(attempt_id, note, folder.read_claim(), read_uptime())
    return add_notes(running, note, read_notes(folder), partial(was_out_of_memory, folder, note))


def _find_end_time(report: RunnerReport, claim: Claim) -> float:
    """Return when a task ended, in seconds after boot: as its runner reported, unless that is before its start or in
    the future. A task can still claim an earlier end than its own."""
    now = read_uptime()
    begun = claim.started / TICKS_PER_SECOND if claim.started is not None else 0.0
    return report.ended if report.ended is not None and begun <= report.ended <= now else now


def find_first_pid(container_id: str) -> int:
    """Return the first process of a container, on this machine; 0 if it has none."""
    for name in filter(str.isdigit, os.listdir("/proc")):
        if container_id.encode() in read_kernel_file(f"/proc/{name}/cgroup"):
            numbers = re.search(rb"^NSpid:(.*)$", read_kernel_file(f"/proc/{name}/status"), re.M)
            if numbers and numbers[1].split()[-1:] == [b"1"]:
                return int(name)
    return 0


def _read_pid_namespace(pid: int) -> int:
    """Return UNKNOWN_NAMESPACE if that is not permitted."""
    try:
        return os.stat(f"/proc/{pid}/ns/pid").st_ino
    except PermissionError:
        return UNKNOWN_NAMESPACE


def _is_in_cgroup(container: ContainerState) -> bool:
    """Return whether the process is in the container's cgroup."""
    return container.id.encode() in read_kernel_file(f"/proc/{container.pid}/cgroup")


def _make_lost_observation(attempt_id: str, note: StartNote | None, why: str) -> Observation:
    """Return the observation of a task without an exit. `why`: the kind of its end, and the container's exit code."""
    kind, _, code = why.partition(" ")
    seen = Observation(attempt_id=attempt_id, seen=ObservedState.LOST, started_at=note.at if note else None)
    if kind == EndKind.REMOVED:
        return replace(seen, message=msg("The container was removed from outside the task"), cause=Cause.LOST)
    if kind == EndKind.NO_SHELL:
        text = msg("The image has no shell that runs on this machine (exit code {code})", code=code)
        return replace(seen, seen=ObservedState.REFUSED, message=text, cause=Cause.NO_SHELL)
    if kind == EndKind.NOT_RUN:
        text = msg("The container could not write to the task's folder")
        return replace(seen, seen=ObservedState.REFUSED, message=text, cause=Cause.START_FAILED, transient=True)
    text = msg("The container was killed from outside the task (exit code {code})", code=code)
    return replace(seen, message=text, cause=Cause.LOST)
