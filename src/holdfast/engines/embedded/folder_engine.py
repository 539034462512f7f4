"""Base of the engines whose tasks have a folder on this machine: logs, metrics, sessions, artifacts, disk limits.

How a task starts, and how its end is found out, is left to each engine.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from typing import TypeVar

from holdfast.core.attempt import Observation, ObservedState
from holdfast.core.errors import EngineError
from holdfast.core.messages import msg
from holdfast.core.metrics.samples import GpuState, Reading
from holdfast.core.scheduling.placement import Node
from holdfast.engines.artifacts import ArtifactSink
from holdfast.engines.base import (
    ExecCommand,
    ExecSession,
    LogSource,
    LogStream,
    LogUsage,
    TaskDiskUsage,
    TaskProcess,
    ignore_health_change,
)

from .background_tasks import BackgroundTasks
from .exec.exec_sessions import ExecSessions
from .lifecycle import artifacts, killing
from .lifecycle.disk_limits import DiskLimits, measure_ended_tasks, measure_logs_by_job, trim_ended_logs
from .lifecycle.live_tasks import LiveTask
from .lifecycle.logs import MAX_LOG_READERS, find_log_folder, make_log
from .lifecycle.recorder import LogRecorder
from .lifecycle.task_folders import TaskFolders
from .lifecycle.task_observer import TaskObserver, observe_running
from .lifecycle.task_stopper import TaskStopper
from .lifecycle.task_watch import TaskWatcher
from .metrics.sampling_rounds import MeasuredTask
from .metrics.task_metrics import TaskMetrics
from .options import EmbeddedOptions
from .processes import read_uptime
from .task_folder import TaskFolder, is_safe_id
from .threads import start_thread_pool

T = TypeVar("T")

_THREAD_COUNT = 8
_STOP_TIMEOUT = 10.0  # seconds to wait for a task that is stopping before its files are revived


class FolderEngine:
    name = ""

    def __init__(self, folders: TaskFolders, options: EmbeddedOptions, read_boot_id: Callable[[], str]) -> None:
        self._task_folders = folders
        self._watch: TaskWatcher | None = None
        self._exec_sessions_or_none: ExecSessions | None = None
        self._background = BackgroundTasks()
        self._disk_limits = DiskLimits(self, options, self._run_in_thread)
        self._stopper = TaskStopper(self, self._run_in_thread, self._background.start)
        self._task_metrics = TaskMetrics()
        self._observer = TaskObserver(folders, options, self._disk_limits, self._task_metrics, read_boot_id)
        self._unsettled: set[str] = set()  # attempts that run, or whose last processes do, but are not watched
        self._nodes: tuple[Node, ...] = ()
        self.log_readers = asyncio.Semaphore(MAX_LOG_READERS)
        self._on_change: Callable[[Observation], None] = lambda _: None
        self._on_health: Callable[[], None] = ignore_health_change

    def _start_threads(self, on_change: Callable[[Observation], None], on_health: Callable[[], None]) -> None:
        self._on_change = on_change
        self._on_health = on_health
        self._loop = asyncio.get_running_loop()
        self._threads = start_thread_pool(_THREAD_COUNT, self.name)

    async def observe(self, attempt_ids: Collection[str]) -> dict[str, Observation]:
        seen: dict[str, Observation] = {}
        watched = [task for attempt_id in attempt_ids if (task := self._task_watch.get(attempt_id))]
        await self._handle_missed_ends(watched)
        unknown = []
        for attempt_id in attempt_ids:
            live = self._task_watch.get(attempt_id)
            if live is not None:
                seen[attempt_id] = observe_running(live)
            else:
                unknown.append(attempt_id)
        for found in await self._observe_unwatched(unknown) if unknown else ():
            seen[found.attempt_id] = found
            if found.seen in (ObservedState.RUNNING, ObservedState.HELD):
                await self._adopt_task(found.attempt_id)
        return seen

    async def _observe_unwatched(self, attempt_ids: Sequence[str]) -> list[Observation]:
        """Observe tasks that are not watched, in this order."""
        raise NotImplementedError

    async def stop(self, attempt_id: str, grace: float) -> None:
        raise NotImplementedError

    def list_nodes(self) -> Sequence[Node]:
        return self._nodes

    async def _handle_missed_ends(self, tasks: list[LiveTask]) -> None:
        """Catch ends that the kernel's notification missed: the lock on the claim shows them."""
        dead = (
            await self._run_in_thread(lambda: [task for task in tasks if not task.folder.is_alive()]) if tasks else []
        )
        for task in dead:
            if self._watch is not None:
                self._watch.handle_runner_end_once(task)

    async def _adopt_task(self, attempt_id: str) -> None:
        """Watch a task that another server, or an earlier run of this one, started."""
        task = await self._run_in_thread(lambda: self._observer.open_live_task(attempt_id))
        self._task_watch.add(task)

    async def append_log(self, attempt_id: str, key: str, text: str) -> None:
        task = self._task_watch.get(attempt_id)
        if task is not None:
            task.recorder.record_sizes(final=True)  # in the merged log, its stderr comes before the text, too
            await self._run_in_thread(lambda: task.folder.append_log_once(key, text))

    def list_live_tasks(self) -> list[LiveTask]:
        return list(self._watch) if self._watch is not None else []

    async def measure_disk(self) -> Mapping[str, TaskDiskUsage]:
        return await self._disk_limits.measure_tasks()

    async def trim_logs(self, keep: int, wanted: int, *, ended: bool = False) -> int:
        if ended:
            return await self._run_in_thread(lambda: trim_ended_logs(self._task_folders, keep, wanted))
        return await self._disk_limits.trim_logs(keep, wanted)

    async def stop_task_for_full_disk(
        self, attempt_id: str, use: TaskDiskUsage, free: int, grace: float, *, files: bool = False
    ) -> None:
        await self._disk_limits.stop_task_for_full_disk(attempt_id, use, free, grace, files=files)

    def record_disk_full(self, seconds_ago: float = 0.0) -> None:
        self._disk_limits.full_at = read_uptime() - seconds_ago

    async def measure_ended_tasks(self, attempt_ids: Collection[str]) -> Mapping[str, int]:
        ids = [attempt_id for attempt_id in attempt_ids if is_safe_id(attempt_id)]
        return await self._run_in_thread(lambda: measure_ended_tasks(self._task_folders, ids))

    async def measure_logs_by_job(self, timeout: float) -> tuple[Mapping[str, LogUsage], bool]:
        return await self._run_in_thread(lambda: measure_logs_by_job(self._task_folders, timeout))

    def is_live(self, task: LiveTask) -> bool:
        return self._watch is not None and self._watch.get(task.attempt_id) is task

    def build_kill_target(self, task: LiveTask) -> killing.KillTarget:
        cookie = self._task_folders.get_machine_wide_name(task.attempt_id)
        return killing.KillTarget(
            cookie, task.folder, task.note, task.pid, self._exec_sessions.list_helper_pids(task.attempt_id)
        )

    def collect_artifacts(self, attempt_id: str, sink: ArtifactSink) -> None:
        if not is_safe_id(attempt_id):
            return
        folder = self._task_folders.get_folder(attempt_id)
        note = folder.read_start_note()
        if note is not None and not folder.is_alive():
            artifacts.collect_artifacts(folder, note, sink)

    async def list_attempts(self) -> Sequence[str]:
        return await self._run_in_thread(self._task_folders.list_attempt_ids)

    async def open_session(self, attempt_id: str, command: ExecCommand) -> ExecSession:
        return await self._exec_sessions.open_session(attempt_id, command)

    async def connect_port(self, attempt_id: str, port: int) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        return await self._exec_sessions.connect_port(attempt_id, port)

    async def wait_until_gone(self, attempt_id: str) -> None:
        """Wait for a task that is stopping, with a timeout."""
        task = self._task_watch.get(attempt_id)
        if task is not None:
            with suppress(TimeoutError):
                async with asyncio.timeout(_STOP_TIMEOUT):
                    await task.gone.wait()

    async def list_processes(self, attempt_id: str) -> Sequence[TaskProcess]:
        return await self._exec_sessions.list_processes(attempt_id)

    @property
    def _exec_sessions(self) -> ExecSessions:
        if self._exec_sessions_or_none is None:
            raise EngineError(msg("the engine is not running"))
        return self._exec_sessions_or_none

    async def measure_tasks(self, attempt_ids: Collection[str]) -> Mapping[str, Reading]:
        asked = {id for id in attempt_ids if self._task_watch.get(id) is not None}
        return await self._task_metrics.measure_tasks(self._list_measured_tasks(), asked) if asked else {}

    async def read_gpu_states(self) -> Mapping[str, Sequence[GpuState]]:
        node = self._nodes[0]
        if not node.gpus:
            return {}
        return {node.name: await self._task_metrics.read_gpu_states(self._list_measured_tasks())}

    def _list_measured_tasks(self) -> list[MeasuredTask]:
        targets = [(task, self.build_kill_target(task)) for task in self._task_watch]
        return [
            MeasuredTask(task.attempt_id, task.note, task.pid, target.helpers, target.cookie)
            for task, target in targets
            if task.note is not None
        ]

    def open_log(self, attempt_id: str, stream: LogStream) -> LogSource | None:
        return make_log(self, attempt_id, stream) if self.find_log_folder(attempt_id) is not None else None

    def find_log_folder(self, attempt_id: str) -> TaskFolder | None:
        return find_log_folder(self._task_folders, attempt_id)

    def get_followed_recorder(self, attempt_id: str) -> LogRecorder | None:
        task = self._task_watch.get(attempt_id)
        if task is None:
            return None
        self._task_watch.follow_logs(task)
        return task.recorder

    def is_in_transition(self, attempt_id: str) -> bool:
        return attempt_id in self._unsettled

    @property
    def _task_watch(self) -> TaskWatcher:
        if self._watch is None:
            raise EngineError(msg("the engine is not running"))
        return self._watch

    async def _run_in_thread(self, call: Callable[[], T]) -> T:
        try:
            future = self._loop.run_in_executor(self._threads, call)
        except RuntimeError as error:  # its threads have stopped
            raise EngineError(msg("the engine is not running")) from error
        return await future
