"""Runs tasks on this machine: each a detached process tree under a small shell runner, in a bubblewrap sandbox.

The state is in the task's folder and in the lock on its claim; memory is only a cache. So the server may die between
any two lines. docs/explanation/sandbox.md describes the whole protocol.
"""

from __future__ import annotations

import asyncio
import importlib
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from holdfast.core.attempt import Observation
from holdfast.core.errors import EngineError
from holdfast.core.messages import msg
from holdfast.engines.base import (
    EngineHealth,
    ExecRefused,
    ImageSummary,
    LaunchSpec,
    PullProgress,
    RegistryCredentials,
    ignore_health_change,
)
from holdfast.engines.start_refusal import StartRefused, make_refusal_observation
from holdfast.supervision import run_supervised

from . import machine
from .cgroups import find_own_procs_file
from .exec.exec_sessions import ExecSessions
from .folder_engine import FolderEngine
from .images.image_store import ImageStore
from .lifecycle import killing
from .lifecycle.join_warmup import JoinWarmup
from .lifecycle.live_tasks import LiveTask
from .lifecycle.memory_limits import MemoryLimits
from .lifecycle.mount_check import MountCheck
from .lifecycle.recorder import LogRecorder
from .lifecycle.revived_tasks import RevivedTasks
from .lifecycle.task_cleaner import TaskCleaner
from .lifecycle.task_folders import TaskFolders, delete_trash
from .lifecycle.task_observer import observe_running
from .lifecycle.task_reviver import TaskReviver
from .lifecycle.task_starter import StartedTask, TaskStarter
from .lifecycle.task_watch import TaskWatcher
from .options import EmbeddedOptions
from .processes import open_child_pidfd, read_uptime
from .sandbox.sandbox_layers import SandboxLayers
from .sandbox.site import SandboxSite, find_site
from .sandbox.spawning import disable_descriptor_inheritance
from .task_folder import is_safe_id

if TYPE_CHECKING:
    from .images.pulling import ImagePuller


class EmbeddedEngine(FolderEngine):
    name = "embedded"

    def __init__(self, home: Path, options: EmbeddedOptions | None = None) -> None:
        self._options = options or EmbeddedOptions()
        super().__init__(TaskFolders(home), self._options, lambda: self._get_site().boot)
        self._images = ImageStore(home / "images", self._options.marks)
        self._puller: ImagePuller | None = None
        self._sandbox_layers = SandboxLayers(home, self._options)
        self._starter: TaskStarter | None = None
        self._site: SandboxSite | None = None
        self._warmup: JoinWarmup | None = None
        self._memory_limits = MemoryLimits(self, self._run_in_thread)
        self._revived = RevivedTasks(
            lambda attempt_id: bool(self._exec_sessions.list_helper_pids(attempt_id)),
            self._run_in_thread,
            self._background.start,
        )

    async def open(
        self, on_change: Callable[[Observation], None], on_health: Callable[[], None] = ignore_health_change
    ) -> None:
        self._start_threads(on_change, on_health)
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

    def is_private_image(self, name: str) -> bool:
        image = self._images.find_image(name)
        return image is not None and image.private

    async def check_image_access(self, name: str, credentials: RegistryCredentials | None = None) -> None:
        await (await self._get_puller()).check_access(name, credentials)

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

    async def _observe_unwatched(self, attempt_ids: Sequence[str]) -> list[Observation]:
        return await self._run_in_thread(lambda: list(map(self._observer.observe_attempt, attempt_ids)))

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

    async def stop(self, attempt_id: str, grace: float) -> None:
        if self._task_watch.get(attempt_id) is None:
            await self.observe([attempt_id])
        task = self._task_watch.get(attempt_id)
        if task is None:
            await self._run_in_thread(lambda: self._revived.end_task(attempt_id))
        else:
            self._stopper.stop_task(task, grace)

    async def remove(self, attempt_id: str) -> None:
        if is_safe_id(attempt_id) and self._task_watch.get(attempt_id) is None:
            await self._run_in_thread(lambda: self._remove_in_thread(attempt_id))

    def _remove_in_thread(self, attempt_id: str) -> None:
        self._revived.end_task(attempt_id)
        self._cleaner.archive_task(attempt_id, self._get_site().groups)

    async def remove_logs(self, attempt_id: str) -> None:
        if is_safe_id(attempt_id):
            await self.remove(attempt_id)
            await self._run_in_thread(lambda: self._task_folders.delete_logs(attempt_id))

    async def revive_task(self, launch: LaunchSpec) -> None:
        try:
            await self._mounts.check_mounts(launch)
        except StartRefused as refusal:
            raise ExecRefused(refusal.message) from refusal
        await self.wait_until_gone(launch.attempt_id)  # so that only its files are kept
        await self._run_in_thread(lambda: self._revived.revive_task(launch))
        self._revived.schedule_session_check(launch.attempt_id)

    def _get_site(self) -> SandboxSite:
        if self._site is None:
            raise EngineError(msg("the engine is not running"))
        return self._site
