"""Runs tasks in containers of Docker or Podman on this machine, through Docker's API.

The state is in the task's folder, in its process and in the daemon; memory is only a cache. The daemon starts
containers and knows their exit codes. Everything else is done on the task's process and its folder, with the code of
the embedded engine, so it works while the daemon restarts.
"""

from __future__ import annotations

import asyncio
import logging
import os
import platform
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from holdfast.core.attempt import Observation, ObservedState
from holdfast.core.conditions import Condition
from holdfast.core.errors import EngineError
from holdfast.core.messages import msg
from holdfast.engines.base import (
    NO_LIMITS,
    EngineHealth,
    ExecCommand,
    ExecRefused,
    ExecSession,
    ImageSummary,
    Isolation,
    LaunchSpec,
    PullProgress,
    RegistryCredentials,
    TaskProcess,
    ignore_health_change,
)
from holdfast.engines.embedded import machine
from holdfast.engines.embedded.cgroups import find_other_cgroups
from holdfast.engines.embedded.exec.exec_sessions import ExecSessions
from holdfast.engines.embedded.folder_engine import FolderEngine
from holdfast.engines.embedded.lifecycle.live_tasks import LiveTask
from holdfast.engines.embedded.lifecycle.mount_check import MountCheck
from holdfast.engines.embedded.lifecycle.task_cleaner import TrashCleaner
from holdfast.engines.embedded.lifecycle.task_folders import TaskFolders, delete_trash
from holdfast.engines.embedded.lifecycle.task_observer import observe_running
from holdfast.engines.embedded.lifecycle.task_watch import TaskWatcher
from holdfast.engines.embedded.processes import read_boot_id, read_uptime
from holdfast.engines.embedded.sandbox.gpus import list_gpus
from holdfast.engines.embedded.sandbox.seccomp import build_seccomp_filter
from holdfast.engines.embedded.sandbox.site import SandboxSite
from holdfast.engines.embedded.sandbox.spawning import disable_descriptor_inheritance
from holdfast.engines.embedded.task_folder import is_safe_id
from holdfast.engines.start_refusal import StartRefused, make_refusal_observation
from holdfast.supervision import run_supervised

from .container_folder import ContainerFolder
from .container_observer import ContainerObserver
from .container_starter import ContainerStarter
from .container_stopper import ContainerStopper, can_inspect
from .daemon import Daemon
from .image_pulls import ContainerImages
from .image_users import ImageUsers
from .limitations import NO_LIMITS_NOTE, is_remote, list_limitations, make_remote_condition, make_unavailable_condition
from .mount_staging import MountStaging
from .names import ContainerNames
from .options import ContainerOptions
from .revived_containers import RevivedContainers
from .task_files import write_library

logger = logging.getLogger(__name__)

_MAX_INSPECTIONS = 8  # containers inspected at a time
_STOP_INTERVAL = 0.5  # seconds between two looks at a container that is stopped through the daemon
_CGROUP_V2_FILE = "/sys/fs/cgroup/cgroup.controllers"


class ContainerEngine(FolderEngine):
    name = "docker"

    def __init__(self, home: Path, options: ContainerOptions | None = None) -> None:
        self._options = options or ContainerOptions()
        self._boot = read_boot_id()
        super().__init__(TaskFolders(home, ContainerFolder), self._options, lambda: self._boot)
        self._names = ContainerNames(self._options.installation_id or self._task_folders.tag)
        self._daemon = Daemon(self._options.socket, self._names)
        self._stopper = self._container_stopper = ContainerStopper(
            self, self._run_in_thread, self._background.start, daemon=self._daemon, names=self._names
        )
        self._images = ContainerImages(self._daemon, home, self._options.registries.allowed)
        guarded = (str(home), self._options.socket, *self._options.hidden) if self._options.guards_state else ()
        self._staging = MountStaging(self._task_folders.tag, guarded, self._options)
        self._starter: ContainerStarter | None = None
        self._revived: RevivedContainers | None = None
        self._stopped: set[str] = set()  # attempts that this server has signalled
        self._unreported: set[str] = set()  # ended attempts whose end is unknown until the daemon responds
        self._condition: Condition | None = None
        self._notes: tuple[str, ...] | None = None  # None: not known yet
        self._remote = False  # the daemon is not on this machine
        self._container_observer = ContainerObserver(
            self._daemon,
            self._names,
            self._task_folders,
            self._observer,
            self._run_in_thread,
            self._boot,
            self._stopped.__contains__,
        )

    # --- opening and health -------------------------------------------------------------------------------------------

    async def open(
        self, on_change: Callable[[Observation], None], on_health: Callable[[], None] = ignore_health_change
    ) -> None:
        self._start_threads(on_change, on_health)
        self._mounts = MountCheck()
        self._inspections = asyncio.Semaphore(_MAX_INSPECTIONS)
        self._cleaner = TrashCleaner(self._task_folders, self._options.log_cap, self.name)
        disable_descriptor_inheritance()
        await self._run_in_thread(self._set_up_folders)
        self._watch = TaskWatcher(self._handle_end, lambda task: self._on_change(observe_running(task)))
        for attempt_id in await self._run_in_thread(self._get_revived().find_revived_attempts):
            self._get_revived().schedule_session_check(attempt_id)
        await self._check_daemon()
        self._background.start(run_supervised("container-daemon", self._watch_daemon))
        self._background.start(run_supervised("disk-limits", self._disk_limits.run))

    def _set_up_folders(self) -> None:
        """Prepare the folders, and clean up after a server that died."""
        self._task_folders.create_folders()
        self._images.load_private_names()
        self._starter = ContainerStarter(
            self._options,
            self._daemon,
            self._names,
            self._task_folders,
            self._images,
            ImageUsers(self._daemon, self._names),
            self._staging,
            self._run_in_thread,
            self._unsettled,
            self._boot,
            write_library(self._task_folders.home, self._options.library),
        )
        seccomp = build_seccomp_filter(platform.machine()) or b""
        site = SandboxSite(isolation=Isolation.FULL, boot=self._boot, seccomp=seccomp)
        self._exec_sessions_or_none = ExecSessions(
            self._task_folders, site, self._run_in_thread, lambda task: find_other_cgroups(task.init)
        )
        self._revived = RevivedContainers(
            self._starter,
            self._container_observer,
            lambda attempt_id: bool(self._exec_sessions.list_helper_pids(attempt_id)),
            self._run_in_thread,
            self._background.start,
        )
        self._nodes = (machine.build_node(self._options, list_gpus()),)
        self._staging.clean_up()
        self._cleaner.submit(delete_trash, tuple(self._task_folders.list_trash()))

    async def close(self) -> None:
        if self._watch is not None:
            self._watch.close()
            self._watch = None
            self._exec_sessions.close()
            self._get_revived().close()
            self._background.cancel()
            await self._daemon.close()
            await asyncio.to_thread(self._threads.shutdown)
            self._task_metrics.close()
            await asyncio.to_thread(self._cleaner.close)
            self._staging.remove_folder()

    async def _watch_daemon(self) -> None:
        """Check periodically that the daemon responds. When it does again, look at all tasks."""
        while True:
            await asyncio.sleep(self._options.daemon_interval)
            await self._check_daemon()
            if self._condition is None:
                await self._report_missed_ends()

    async def _check_daemon(self) -> None:
        before = self._condition
        try:
            if before is not None or self._notes is None:
                found = await self._daemon.describe()
                self._notes = list_limitations(found, has_root=self._options.has_root)
                if self._starter is not None:
                    self._starter.description = found
                self._remote = is_remote(found, platform.release())
            await self._images.refresh()  # others may add and remove images, too
            self._condition = make_remote_condition() if self._remote else None
        except EngineError as error:
            self._condition = make_unavailable_condition(str(error))
        if self._condition != before:
            self._on_health()

    async def _report_missed_ends(self) -> None:
        """Report the tasks that ended while the daemon did not respond."""
        for attempt_id in list(self._unreported):
            with suppress(EngineError):
                seen = await self._container_observer.observe(attempt_id)
                self._unreported.discard(attempt_id)
                self._unsettled.discard(attempt_id)
                self._on_change(seen)

    def get_health(self) -> EngineHealth:
        return EngineHealth(
            name=self.name,
            isolation=Isolation.FULL,
            limits=self._describe_limits(),
            notes=self._notes or (),
            conditions=(self._condition,) if self._condition else (),
            has_host_image=False,
        )

    def _describe_limits(self) -> str:
        if NO_LIMITS_NOTE in (self._notes or ()):
            return NO_LIMITS
        return msg("cgroup v{version}", version=2 if os.path.exists(_CGROUP_V2_FILE) else 1)

    # --- images -------------------------------------------------------------------------------------------------------

    async def list_images(self) -> Sequence[ImageSummary]:
        return await self._images.list_images()

    async def is_image_present(self, name: str) -> bool:
        """Return whether the daemon has it under any name, also an ID or a digest."""
        return await self._daemon.find_image(name) is not None

    def has_image(self, name: str) -> bool:
        return self._images.has_image(name)

    async def pull_image(
        self,
        name: str,
        credentials: RegistryCredentials | None = None,
        on_progress: Callable[[PullProgress], None] | None = None,
    ) -> ImageSummary:
        return await self._images.pull_image(name, credentials, on_progress)

    def is_private_image(self, name: str) -> bool:
        return self._images.is_private_image(name)

    async def check_image_access(self, name: str, credentials: RegistryCredentials | None = None) -> None:
        await self._images.check_image_access(name, credentials)

    async def remove_image(self, name: str) -> bool:
        removed = await self._daemon.remove_image(name)
        await self._images.refresh()
        return removed

    # --- starting and ending ------------------------------------------------------------------------------------------

    async def start(self, launch: LaunchSpec) -> Observation:
        live = self._task_watch.get(launch.attempt_id)
        if live is not None:
            return observe_running(live)
        assert self._starter is not None
        try:
            if launch.mounts:
                await self._mounts.check_mounts(launch)
            await self._starter.start_task(launch)
            return (await self.observe([launch.attempt_id]))[launch.attempt_id]
        except StartRefused as refusal:
            return make_refusal_observation(launch.attempt_id, refusal)
        finally:
            self._unsettled.discard(launch.attempt_id)

    async def _observe_unwatched(self, attempt_ids: Sequence[str]) -> list[Observation]:
        async def observe(attempt_id: str) -> Observation:
            async with self._inspections:
                return await self._container_observer.observe(attempt_id)

        return await asyncio.gather(*map(observe, attempt_ids))

    def _handle_end(self, task: LiveTask) -> None:
        self._unsettled.add(task.attempt_id)
        self._background.start(self._report_end(task))

    async def _report_end(self, task: LiveTask) -> None:
        """Report how it ended and what it used; later, if that needs the daemon and it does not respond."""
        usage = await self._run_in_thread(  # at once: the daemon removes the cgroup
            lambda: self._task_metrics.read_final_usage(task.attempt_id, task.note, read_uptime())
        )
        try:
            seen = await self._container_observer.observe(task.attempt_id)
        except EngineError as error:
            logger.warning(msg("the end of %s is not known yet: %s"), task.attempt_id, error)
            self._unreported.add(task.attempt_id)
            return
        self._unsettled.discard(task.attempt_id)
        if not _is_running(seen):
            self._stopped.discard(task.attempt_id)
        self._on_change(replace(seen, used=usage or seen.used) if seen.seen is ObservedState.EXITED else seen)

    async def stop(self, attempt_id: str, grace: float) -> None:
        runs = False
        if self._task_watch.get(attempt_id) is None:
            runs = _is_running((await self.observe([attempt_id]))[attempt_id])
        task = self._task_watch.get(attempt_id)
        if task is not None:
            self._stopped.add(attempt_id)
            self._stopper.stop_task(task, grace)
        elif is_safe_id(attempt_id):
            await self._get_revived().end(attempt_id)
            if runs:
                self._background.start(self._stop_unwatched(attempt_id, grace))

    async def _stop_unwatched(self, attempt_id: str, grace: float) -> None:
        """Stop a running container through the daemon, and report its end. Its process could not be recorded, or its
        folder was deleted."""
        first = attempt_id not in self._stopped
        self._stopped.add(attempt_id)
        if first and grace > 0:
            await self._container_stopper.terminate_unwatched(attempt_id)
        kill_at = asyncio.get_running_loop().time() + grace
        while True:
            if asyncio.get_running_loop().time() >= kill_at:
                await self._container_stopper.kill_unwatched(attempt_id, self._task_folders.get_folder(attempt_id))
            with suppress(EngineError):
                seen = (await self.observe([attempt_id]))[attempt_id]
                if (task := self._task_watch.get(attempt_id)) is not None:
                    self._stopper.stop_task(task, kill_at - asyncio.get_running_loop().time())
                    return
                if not _is_running(seen):
                    self._stopped.discard(attempt_id)
                    self._on_change(seen)
                    return
            await asyncio.sleep(_STOP_INTERVAL)

    async def remove(self, attempt_id: str) -> None:
        if not is_safe_id(attempt_id) or self._task_watch.get(attempt_id) is not None:
            return
        seen = (await self.observe([attempt_id]))[attempt_id]  # records its end, which the daemon then forgets
        if _is_running(seen):
            return
        await self._get_revived().end(attempt_id)
        started = seen.seen is not ObservedState.ABSENT  # one that another server may be starting is never forced
        await self._daemon.remove(self._names.make_name(attempt_id), force=started)
        await self._run_in_thread(lambda: self._cleaner.archive_folder(attempt_id))

    async def remove_logs(self, attempt_id: str) -> None:
        if is_safe_id(attempt_id):
            await self.remove(attempt_id)
            await self._run_in_thread(lambda: self._task_folders.delete_logs(attempt_id))

    async def list_attempts(self) -> Sequence[str]:
        found = await self._run_in_thread(self._task_folders.list_attempt_ids)
        with suppress(EngineError):  # then containers without a folder are missing
            found = list(dict.fromkeys((*found, *await self._daemon.list_attempt_ids())))
        return found

    # --- sessions -----------------------------------------------------------------------------------------------------

    async def open_session(self, attempt_id: str, command: ExecCommand) -> ExecSession:
        self._check_can_join()
        return await super().open_session(attempt_id, command)

    async def connect_port(self, attempt_id: str, port: int) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        self._check_can_inspect(attempt_id)
        return await super().connect_port(attempt_id, port)

    async def list_processes(self, attempt_id: str) -> Sequence[TaskProcess]:
        self._check_can_inspect(attempt_id)
        return await super().list_processes(attempt_id)

    def _check_can_join(self) -> None:
        if not self._options.has_root:
            raise ExecRefused(msg("Sessions in containers need a server that runs as root."))

    def _check_can_inspect(self, attempt_id: str) -> None:
        if is_safe_id(attempt_id) and not can_inspect(self._task_folders.get_folder(attempt_id)):
            raise ExecRefused(msg("The processes of containers can only be inspected by a server that runs as root."))

    async def revive_task(self, launch: LaunchSpec) -> None:
        self._check_can_join()
        try:
            await self._mounts.check_mounts(launch)
        except StartRefused as refusal:
            raise ExecRefused(refusal.message) from refusal
        await self.wait_until_gone(launch.attempt_id)  # so that only its files are kept
        await self._get_revived().revive(launch)

    def _get_revived(self) -> RevivedContainers:
        if self._revived is None:
            raise EngineError(msg("the engine is not running"))
        return self._revived


def _is_running(seen: Observation) -> bool:
    return seen.seen in (ObservedState.RUNNING, ObservedState.HELD)
