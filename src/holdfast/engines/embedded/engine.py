"""Runs tasks on this machine: each a detached process tree under a small shell runner, in a bubblewrap sandbox.

The state is in the task's folder and in the lock on its claim; memory is only a cache. So the server may die between
any two lines. docs/explanation/sandbox.md describes the whole protocol.
"""

from __future__ import annotations

import asyncio
import importlib
import os
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from holdfast.core.attempt import Observation, ObservedState
from holdfast.core.errors import EngineError
from holdfast.core.messages import msg
from holdfast.core.metrics.samples import GpuState, Reading
from holdfast.core.scheduling.placement import Node
from holdfast.engines.base import (
    ArtifactSink,
    EngineHealth,
    ExecCommand,
    ExecRefused,
    ExecSession,
    ImageSummary,
    LaunchSpec,
    LogSource,
    LogStream,
    LogUsage,
    PullProgress,
    RegistryCredentials,
    TaskDiskUsage,
    TaskProcess,
    ignore_health_change,
)
from holdfast.supervision import run_supervised

from . import machine
from .background_tasks import BackgroundTasks
from .cgroups import find_own_procs_file
from .exec.exec_sessions import ExecSessions
from .images.image_store import ImageStore
from .lifecycle import artifacts, killing
from .lifecycle.disk_limits import DiskLimits, measure_ended_tasks, measure_logs_by_job, trim_ended_logs
from .lifecycle.join_warmup import JoinWarmup
from .lifecycle.live_tasks import LiveTask
from .lifecycle.logs import MAX_LOG_READERS, FileLog, MergedLog
from .lifecycle.memory_limits import MemoryLimits
from .lifecycle.mount_check import MountCheck
from .lifecycle.recorder import LogRecorder
from .lifecycle.revived_tasks import RevivedTasks
from .lifecycle.task_cleaner import TaskCleaner
from .lifecycle.task_folders import TaskFolders, delete_trash
from .lifecycle.task_observer import TaskObserver, observe_running
from .lifecycle.task_reviver import TaskReviver
from .lifecycle.task_starter import StartedTask, StartRefused, TaskStarter, make_refusal_observation
from .lifecycle.task_stopper import TaskStopper
from .lifecycle.task_watch import TaskWatcher
from .metrics.sampling_rounds import MeasuredTask
from .metrics.task_metrics import TaskMetrics
from .options import EmbeddedOptions
from .processes import open_child_pidfd, read_uptime
from .sandbox.sandbox_layers import SandboxLayers
from .sandbox.site import SandboxSite, find_site
from .sandbox.spawning import disable_descriptor_inheritance
from .task_folder import TaskFolder, is_safe_id
from .threads import start_thread_pool

if TYPE_CHECKING:
    from .images.pulling import ImagePuller

T = TypeVar("T")

_THREAD_COUNT = 8
_STOP_TIMEOUT = 10.0  # seconds to wait for a task that is stopping before its files are revived


class EmbeddedEngine:
    name = "embedded"

    def __init__(self, home: Path, options: EmbeddedOptions | None = None) -> None:
        self._options = options or EmbeddedOptions()
        self._task_folders = TaskFolders(home)
        self._images = ImageStore(home / "images", self._options.marks)
        self._puller: ImagePuller | None = None
        self._sandbox_layers = SandboxLayers(home, self._options)
        self._starter: TaskStarter | None = None
        self._exec_sessions_or_none: ExecSessions | None = None
        self._site: SandboxSite | None = None
        self._watch: TaskWatcher | None = None
        self._warmup: JoinWarmup | None = None
        self._background = BackgroundTasks()
        self._disk_limits = DiskLimits(self, self._options, self._run_in_thread)
        self._memory_limits = MemoryLimits(self, self._run_in_thread)
        self._stopper = TaskStopper(self, self._run_in_thread, self._background.start)
        self._revived = RevivedTasks(
            lambda attempt_id: bool(self._exec_sessions.list_helper_pids(attempt_id)),
            self._run_in_thread,
            self._background.start,
        )
        self._task_metrics = TaskMetrics()
        self._observer = TaskObserver(
            self._task_folders, self._options, self._disk_limits, self._task_metrics, lambda: self._get_site().boot
        )
        self._unsettled: set[str] = set()  # attempts that run, or whose last processes do, but are not watched
        self._nodes: tuple[Node, ...] = ()
        self.log_readers = asyncio.Semaphore(MAX_LOG_READERS)
        self._on_change: Callable[[Observation], None] = lambda _: None
        self._on_health: Callable[[], None] = ignore_health_change

    async def open(
        self, on_change: Callable[[Observation], None], on_health: Callable[[], None] = ignore_health_change
    ) -> None:
        self._on_change = on_change
        self._on_health = on_health
        self._loop = asyncio.get_running_loop()
        self._threads = start_thread_pool(_THREAD_COUNT, "embedded")
        self._mounts = MountCheck()
        self._cleaner = TaskCleaner(self._task_folders, self._images, self._sandbox_layers, self._options.log_cap)
        disable_descriptor_inheritance()
        await self._run_in_thread(self._set_up_site)
        self._watch = TaskWatcher(self._handle_end, lambda task: self._on_change(observe_running(task)))
        for attempt_id in await self._run_in_thread(self._revived.list_revived_tasks):
            self._revived.schedule_session_check(attempt_id)
        self._background.start(run_supervised("sandbox", self._retry_sandbox))
        self._background.start(run_supervised("memory", self._memory_limits.run))
        self._background.start(run_supervised("disk-limits", self._disk_limits.run))

    def _set_up_site(self) -> None:
        """Find out what this machine supports, and clean up after a server that died."""
        self._task_folders.create_folders()
        self._images.list_names()  # reads them, so that later calls do not block
        self._site = site = find_site(self._task_folders.home, self._options, self._sandbox_layers)
        self._starter = TaskStarter(
            self._options, site, self._sandbox_layers, self._images, self._task_folders, self._unsettled
        )
        self._exec_sessions_or_none = ExecSessions(self._task_folders, site, self._run_in_thread)
        self._revived.reviver = TaskReviver(
            self._options, site, self._sandbox_layers, self._images, self._task_folders, set()
        )
        self._nodes = (machine.build_node(self._options, site.gpus),)
        self._cleaner.submit(delete_trash, (*self._task_folders.list_trash(), *self._images.list_unfinished_folders()))
        self._warmup = JoinWarmup(find_own_procs_file) if site.groups is not None else None
        if site.groups is not None:  # before any task starts: an empty group may be one that is being created
            site.groups.remove_orphans(
                self._task_folders.get_machine_wide_name(""),
                set(map(self._task_folders.get_machine_wide_name, self._task_folders.list_attempt_ids())),
            )
        self._cleaner.submit(self._cleaner.clean_shared_folders)

    async def _retry_sandbox(self) -> None:
        """Check again whether tasks can be isolated as required, until they can."""
        while self._get_site().condition is not None:
            await asyncio.sleep(self._options.sandbox_retry)
            before = self._get_site().condition
            site = await self._run_in_thread(
                lambda: find_site(self._task_folders.home, self._options, self._sandbox_layers)
            )
            self._use_site(site)
            if site.condition != before:
                self._on_health()

    def _use_site(self, site: SandboxSite) -> None:
        assert self._starter is not None
        self._site = site
        self._starter.site = site
        self._revived.set_site(site)
        self._exec_sessions.use_site(site)

    async def close(self) -> None:
        if self._puller is not None:
            await self._puller.close()
            self._puller = None
        if self._watch is not None:
            self._watch.close()
            self._watch = None
            self._exec_sessions.close()
            self._revived.close()
            self._background.cancel()
            await asyncio.to_thread(self._threads.shutdown)
            if self._warmup is not None:
                await asyncio.to_thread(self._warmup.close)
            self._task_metrics.close()
            await asyncio.to_thread(self._cleaner.close)

    def get_health(self) -> EngineHealth:
        site = self._get_site()
        limits = site.groups.label if site.groups else "watched"
        conditions = (site.condition,) if site.condition else ()
        return EngineHealth(
            name=self.name, isolation=site.isolation, limits=limits, notes=site.notes, conditions=conditions
        )

    def list_nodes(self) -> Sequence[Node]:
        return self._nodes

    async def list_images(self) -> Sequence[ImageSummary]:
        return await self._run_in_thread(self._images.list_image_summaries)

    async def import_image(self, name: str, file: Path) -> ImageSummary:
        """Import a docker-save tar, an OCI layout or a rootfs tar. UserError if it is none of them, or has no shell."""
        info = await self._run_in_thread(lambda: self._images.add(name, file, needs_shell=True))
        self._cleaner.schedule_shared_cleanup()
        return info

    def has_image(self, name: str) -> bool:
        image = self._images.find_image(name)
        return image is not None and not image.private

    async def pull_image(
        self,
        name: str,
        credentials: RegistryCredentials | None = None,
        on_progress: Callable[[PullProgress], None] | None = None,
    ) -> ImageSummary:
        found = await (await self._get_puller()).pull_image(name, credentials, on_progress)
        self._cleaner.schedule_shared_cleanup()
        return found

    async def _get_puller(self) -> ImagePuller:
        """Most servers pull rarely: the HTTP client is only loaded for the first pull."""
        if self._puller is None:
            pulling = await self._run_in_thread(lambda: importlib.import_module(".images.pulling", __package__))
            self._puller = self._puller or pulling.ImagePuller(self._images, self._options.registries)
        return self._puller

    async def remove_image(self, name: str) -> bool:
        """Return False if there was none. Running tasks keep it."""
        removed = await self._run_in_thread(lambda: self._images.remove(name))
        self._cleaner.schedule_shared_cleanup()
        return removed

    def prepare_start(self) -> None:
        if self._warmup is not None:
            self._warmup.start()

    async def start(self, launch: LaunchSpec) -> Observation:
        self.prepare_start()
        live = self._task_watch.get(launch.attempt_id)
        if live is not None:
            return observe_running(live)
        try:
            if (
                launch.mounts
                and is_safe_id(launch.attempt_id)
                and not self._task_folders.get_folder(launch.attempt_id).exists()
            ):
                await self._mounts.check_mounts(launch)
            started = await self._run_in_thread(lambda: self._start_in_thread(launch))
        except StartRefused as refusal:
            return make_refusal_observation(launch.attempt_id, refusal)
        live = self._task_watch.get(launch.attempt_id) if started is not None else None
        if live is not None:
            return observe_running(live)
        return (await self.observe([launch.attempt_id]))[launch.attempt_id]

    def _start_in_thread(self, launch: LaunchSpec) -> StartedTask | None:
        if not is_safe_id(launch.attempt_id):
            raise StartRefused(
                msg("The attempt ID {attempt_id} is not a valid file name.", attempt_id=repr(launch.attempt_id))
            )
        folder = self._task_folders.get_folder(launch.attempt_id)
        assert self._starter is not None
        started = self._starter.start_task(launch, folder)
        if started is not None:
            # From the thread, so that the task is watched even if the caller was cancelled.
            pidfd = open_child_pidfd(started.pid)
            self._loop.call_soon_threadsafe(self._watch_started, launch.attempt_id, started, pidfd)
        return started

    def _watch_started(self, attempt_id: str, started: StartedTask, pidfd: int | None) -> None:
        self._unsettled.discard(attempt_id)
        if self._watch is None:
            if pidfd is not None:
                os.close(pidfd)
            return
        self._watch.add(
            LiveTask(
                attempt_id=attempt_id,
                folder=started.folder,
                note=started.note,
                recorder=LogRecorder(started.folder, self._options.log_cap),
                pid=started.pid,
                pidfd=pidfd,
                started_at=read_uptime(),
            )
        )

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
        if unknown:
            for found in await self._run_in_thread(lambda: list(map(self._observer.observe_attempt, unknown))):
                seen[found.attempt_id] = found
                if found.seen in (ObservedState.RUNNING, ObservedState.HELD):
                    await self._adopt_task(found.attempt_id)
        return seen

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

    def _handle_end(self, task: LiveTask) -> None:
        if task.note is not None and not task.note.sandbox:
            self._unsettled.add(task.attempt_id)
        self._background.start(self._report_end(task))

    async def _report_end(self, task: LiveTask) -> None:
        """Report how it ended and what it used; without a PID namespace, kill the remaining processes first."""

        def observe_end() -> Observation:
            if task.note is not None and not task.note.sandbox:
                killing.kill_unsandboxed_processes(self.build_kill_target(task)._replace(runner=0))
            if task.claim.code is not None:
                return self._observer.observe_end(task.attempt_id, task.folder, task.note, task.claim, task.rusage)
            return self._observer.observe_attempt(task.attempt_id)

        try:
            seen = await self._run_in_thread(observe_end)
        finally:
            self._unsettled.discard(task.attempt_id)
        self._task_metrics.drop_task(task.attempt_id)
        self._on_change(seen)

    async def append_log(self, attempt_id: str, key: str, text: str) -> None:
        task = self._task_watch.get(attempt_id)
        if task is not None:
            await self._run_in_thread(lambda: task.folder.append_log_once(key, text))

    async def stop(self, attempt_id: str, grace: float) -> None:
        if self._task_watch.get(attempt_id) is None:
            await self.observe([attempt_id])
        task = self._task_watch.get(attempt_id)
        if task is None:
            await self._run_in_thread(lambda: self._revived.end_task(attempt_id))
        else:
            self._stopper.stop_task(task, grace)

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

    async def remove(self, attempt_id: str) -> None:
        if is_safe_id(attempt_id) and self._task_watch.get(attempt_id) is None:
            await self._run_in_thread(lambda: self._remove_in_thread(attempt_id))

    def _remove_in_thread(self, attempt_id: str) -> None:
        self._revived.end_task(attempt_id)
        self._cleaner.archive_task(attempt_id, self._get_site().groups)

    def collect_artifacts(self, attempt_id: str, sink: ArtifactSink) -> None:
        if not is_safe_id(attempt_id):
            return
        folder = self._task_folders.get_folder(attempt_id)
        note = folder.read_start_note()
        if note is not None and not folder.is_alive():
            artifacts.collect_artifacts(folder, note, sink)

    async def remove_logs(self, attempt_id: str) -> None:
        if is_safe_id(attempt_id):
            await self.remove(attempt_id)
            await self._run_in_thread(lambda: self._task_folders.delete_logs(attempt_id))

    async def list_attempts(self) -> Sequence[str]:
        return await self._run_in_thread(self._task_folders.list_attempt_ids)

    async def open_session(self, attempt_id: str, command: ExecCommand) -> ExecSession:
        return await self._exec_sessions.open_session(attempt_id, command)

    async def connect_port(self, attempt_id: str, port: int) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        return await self._exec_sessions.connect_port(attempt_id, port)

    async def revive_task(self, launch: LaunchSpec) -> None:
        try:
            await self._mounts.check_mounts(launch)
        except StartRefused as refusal:
            raise ExecRefused(refusal.message) from refusal
        await self.wait_until_gone(launch.attempt_id)  # so that only its files are kept
        await self._run_in_thread(lambda: self._revived.revive_task(launch))
        self._revived.schedule_session_check(launch.attempt_id)

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
        if self.find_log_folder(attempt_id) is None:
            return None
        return MergedLog(self, attempt_id) if stream is LogStream.MERGED else FileLog(self, attempt_id, stream)

    def find_log_folder(self, attempt_id: str) -> TaskFolder | None:
        if not is_safe_id(attempt_id):
            return None
        for _ in range(2):  # it may be archived between the two checks
            folder = self._task_folders.get_folder(attempt_id)
            if os.path.lexists(folder["stdout"]):
                return folder
        return None

    def get_followed_recorder(self, attempt_id: str) -> LogRecorder | None:
        task = self._task_watch.get(attempt_id)
        if task is None:
            return None
        self._task_watch.follow_logs(task)
        return task.recorder

    def is_in_transition(self, attempt_id: str) -> bool:
        return attempt_id in self._unsettled

    def _get_site(self) -> SandboxSite:
        if self._site is None:
            raise EngineError(msg("the engine is not running"))
        return self._site

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
