"""Runs tasks as jobs of a Slurm cluster.

The server's machine is a submit host, and all nodes see the engine's folder at the same path. The state is in that
folder and in Slurm; memory is only a cache. Every job is found by its name, never by its number: Slurm forgets jobs and
uses their numbers again.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TypeVar

from holdfast.core.attempt import Observation, ObservedState
from holdfast.core.errors import EngineError
from holdfast.core.messages import msg
from holdfast.core.metrics.samples import Reading
from holdfast.core.scheduling.placement import Node
from holdfast.engines.artifacts import ArtifactSink
from holdfast.engines.base import (
    EngineHealth,
    ExecCommand,
    ExecSession,
    LaunchSpec,
    LogSource,
    LogStream,
    TaskProcess,
    ignore_health_change,
)
from holdfast.engines.embedded.background_tasks import BackgroundTasks
from holdfast.engines.embedded.lifecycle import artifacts
from holdfast.engines.embedded.lifecycle.logs import MAX_LOG_READERS, find_log_folder, make_log
from holdfast.engines.embedded.lifecycle.recorder import LogRecorder
from holdfast.engines.embedded.lifecycle.task_cleaner import TrashCleaner
from holdfast.engines.embedded.lifecycle.task_folders import TaskFolders, delete_trash
from holdfast.engines.embedded.task_folder import TaskFolder, is_safe_id
from holdfast.engines.embedded.threads import start_thread_pool
from holdfast.engines.queue_waits import QueueWait
from holdfast.engines.start_refusal import StartRefused, make_refusal_observation
from holdfast.supervision import run_supervised

from .changed_tasks import ChangedTasks
from .cluster import Cluster
from .commands import SlurmCommands, SlurmUnavailable
from .isolation.image_engine import ImageEngine
from .isolation.task_setup import NODES_FOLDER, TaskSetups
from .names import JobNames
from .node_programs import NodePrograms
from .observer import SlurmObserver
from .options import SlurmOptions
from .probe import ClusterProbe
from .queue_waits import QueueWaits
from .queue_watch import QueueWatch
from .revived_jobs import RevivedJobs
from .sessions import SlurmSessions
from .slurm_folder import SlurmFolder
from .starter import SlurmStarter
from .stopper import SlurmStopper
from .users import TaskOwners
from .users.shared_folders import set_up_folders
from .watched_tasks import WatchedTask, WatchedTasks, poll_logs

logger = logging.getLogger(__name__)

T = TypeVar("T")

_THREAD_COUNT = 8
_PAUSE_FACTOR = 20  # pause between two looks at the files of all tasks, in multiples of the time that one takes
_CALM_CHANGE_INTERVAL = 0.5  # seconds between two looks for changes while no task starts or ends
_LOG_PAUSE_FACTOR = 5  # pause between two looks at the logs that are followed, in the same way
_RETRY_INTERVAL = 5.0  # seconds between two looks at the nodes while Slurm does not respond


class SlurmEngine(ImageEngine):
    name = "slurm"

    def __init__(self, folder: Path, options: SlurmOptions | None = None) -> None:
        super().__init__(folder, options or SlurmOptions())
        self._task_folders = TaskFolders(folder, SlurmFolder)
        self._names = JobNames(self._options.installation_id or self._task_folders.tag)
        self._owners = TaskOwners(self._options.run_as, folder)
        self._commands = SlurmCommands(self._options.conf, self._names.prefix, self._owners.list_uids)
        self._on_change: Callable[[Observation], None] = lambda _: None
        self._on_health: Callable[[], None] = ignore_health_change
        self._background = BackgroundTasks()
        self._tasks = WatchedTasks(self._options.log_cap)
        self._is_open = False
        self._has_folders = False  # the shared folder was there since `open`
        self._changed_at = float("-inf")  # last start or change of a task, in the event loop's time
        self.log_readers = asyncio.Semaphore(MAX_LOG_READERS)
        self._cluster = Cluster(self.name, self._commands, self._options)

    # --- opening and health -------------------------------------------------------------------------------------------

    async def open(
        self, on_change: Callable[[Observation], None], on_health: Callable[[], None] = ignore_health_change
    ) -> None:
        self._on_change, self._on_health = on_change, on_health
        self._loop = asyncio.get_running_loop()
        self._threads = start_thread_pool(_THREAD_COUNT, self.name)
        self._cleaner = TrashCleaner(self._task_folders, self._options.log_cap, self.name)
        self._background = BackgroundTasks()
        options, names, commands, folders = self._options, self._names, self._commands, self._task_folders
        run, start, owners = self._run_in_thread, self._background.start, self._owners
        self._queue = queue = QueueWatch(commands, options.min_interval, options.calm_interval, self._handle_health)
        self._changes = ChangedTasks(folders.home)
        self._observer = SlurmObserver(options, names, folders, commands, queue, self._tasks, run, owners)
        programs = NodePrograms(folders.home)
        setups = TaskSetups(options, folders.home, programs, self._images)
        self._starter = SlurmStarter(options, names, commands, queue, self._observer, setups, run, owners)
        self._stopper = SlurmStopper(
            names, commands, queue, self._observer, run, start, self._report, options.busy_interval, owners
        )
        self._sessions = SlurmSessions(commands, self._observer, programs, owners, run, start)
        self._revived = RevivedJobs(
            names, commands, queue, folders, self._starter, self._sessions.has_session, owners, run, start
        )
        self._probe = ClusterProbe(
            options, names.probe_name, commands, self._cluster, folders.home, run, self._on_health, owners
        )
        self._queue_waits = QueueWaits(self._names, self._commands, self._queue, self._observer)
        self._is_open, self._has_folders = True, False
        await self._open_folders()
        await self._refresh_cluster()
        self._background.start(run_supervised("slurm-queue", self._watch_tasks))
        self._background.start(run_supervised("slurm-logs", self._watch_logs))
        self._background.start(run_supervised("slurm-nodes", self._watch_nodes))
        self._probe.start()

    async def _open_folders(self) -> None:
        """Use the shared folder; while it cannot be used, `_watch_nodes` tries again and the probe says why."""
        try:
            attempt_ids = await self._run_in_thread(self._set_up_folders)
            revived = await self._run_in_thread(self._revived.find_revived_attempts)
        except OSError as error:
            logger.warning(msg("cannot use the shared folder yet: %s"), error)
            return
        self._has_folders = True
        await self._watch_new(attempt_ids)
        for attempt_id in revived:
            self._revived.schedule_session_check(attempt_id)

    def _set_up_folders(self) -> list[str]:
        """Create the folders; return the attempts that may run."""
        self._task_folders.create_folders()
        self._owners.load()
        self._changes.create_folder()
        set_up_folders(self._task_folders.home, (NODES_FOLDER,), has_users=self._owners.is_enabled)
        self._cleaner.submit(delete_trash, tuple(self._task_folders.list_trash()))
        self._set_up_images(self._cleaner, self._task_folders)
        found = filter(is_safe_id, self._task_folders.list_attempt_ids())
        return [attempt_id for attempt_id in found if self._observer.get_folder(attempt_id).is_alive()]

    async def close(self) -> None:
        if not self._is_open:
            return
        self._is_open = False
        self._revived.close()
        await self._probe.close()
        await self._close_images()
        await self._sessions.close()
        self._background.cancel()
        await self._queue.close()
        self._tasks = WatchedTasks(self._options.log_cap)
        await asyncio.to_thread(self._threads.shutdown)
        await asyncio.to_thread(self._commands.close)
        await asyncio.to_thread(self._cleaner.close)

    def _handle_health(self) -> None:
        self._cluster.error = self._queue.error
        self._on_health()

    def get_health(self) -> EngineHealth:
        health = self._cluster.get_health()
        return self._probe.extend_health(health) if self._is_open else health

    async def complete_checks(self) -> None:
        """Check the cluster now, if that is due."""
        with suppress(EngineError, OSError):
            await self._probe.run_due()

    def list_nodes(self) -> Sequence[Node]:
        return (self._cluster.build_node(),)

    async def _watch_nodes(self) -> None:
        while True:
            interval = self._options.node_interval
            is_ready = self._has_folders and not self._cluster.error
            await asyncio.sleep(interval if is_ready else min(interval, _RETRY_INTERVAL))
            if not self._has_folders:
                await self._open_folders()
                self._probe.request_check()
            if await self._refresh_cluster():
                self._on_health()

    async def _refresh_cluster(self) -> bool:
        """Return whether it has changed."""
        before, self._cluster.nodes = self._cluster.nodes, await self._run_in_thread(self._starter.setups.read_nodes)
        has_changed = before != self._cluster.nodes
        with suppress(EngineError):
            has_changed = await self._cluster.refresh() or has_changed
        return has_changed

    # --- watching -----------------------------------------------------------------------------------------------------

    async def _watch_tasks(self) -> None:
        """Look at the tasks whose nodes report a change at once, at the others that run often, and at Slurm's queue as
        often as they need it."""
        round_ended_at, took = float("-inf"), 0.0
        while True:
            interval = self._options.change_interval
            await asyncio.sleep(interval if self._is_busy() else max(interval, _CALM_CHANGE_INTERVAL))
            await self._run_in_thread(self._changes.collect)
            changed = self._changes.take_changed(lambda attempt_id: self._tasks.get(attempt_id) is not None)
            began = self._loop.time()
            if began - round_ended_at >= max(self._options.busy_interval, _PAUSE_FACTOR * took):
                await self._look_at_tasks(changed)
                round_ended_at = self._loop.time()
                took = round_ended_at - began
            elif changed:
                await self._report_changes(changed, look=False)

    async def _look_at_tasks(self, changed: set[str]) -> None:
        """Look at the tasks that run, and at those with changes; with Slurm's queue, at all."""
        await self._starter.expire_gangs(self._options.gang_timeout)
        active = self._tasks.list_active()
        look = self._is_look_due()
        ids = changed | {task.attempt_id for task in (self._tasks if look else active)}
        await self._report_changes(ids, look=look)
        await self._poll_logs(active)

    async def _report_changes(self, attempt_ids: set[str], *, look: bool) -> None:
        ids = [attempt_id for attempt_id in attempt_ids if not self._is_forming(attempt_id)]
        if not ids:
            return
        looked_at = self._queue.looked_at
        with suppress(EngineError):  # nothing is known: the next round looks again
            for seen in (await self._observer.observe_changes(ids, look=look)).values():
                self._report(seen)
            if self._queue.looked_at != looked_at:
                await self._stopper.cancel_duplicates()

    def _is_busy(self) -> bool:
        return self._loop.time() - self._changed_at < self._options.busy_time

    def _is_look_due(self) -> bool:
        """Return whether it is time to look at Slurm's queue: often after a change, seldom otherwise."""
        interval = 0 if self._is_busy() else self._options.calm_interval
        return len(self._tasks) > 0 and self._loop.time() - self._queue.looked_at > interval

    async def _watch_logs(self) -> None:
        took = 0.0
        while True:
            await self._tasks.wait_for_growth(self._options.log_interval, _LOG_PAUSE_FACTOR * took)
            began = self._loop.time()
            await self._poll_logs(self._tasks.list_followed(began))
            took = self._loop.time() - began

    async def _poll_logs(self, tasks: list[WatchedTask]) -> None:
        for task in await self._run_in_thread(lambda: poll_logs(tasks)) if tasks else ():
            task.active_at = self._loop.time()
            task.recorder.wake_readers()

    def _is_forming(self, attempt_id: str) -> bool:
        return self._starter.find_forming(attempt_id) is not None

    def _report(self, seen: Observation) -> None:
        """Report a change of a watched task, and stop to watch it once it has ended."""
        task = self._tasks.get(seen.attempt_id)
        if task is None or seen.seen is ObservedState.UNREACHABLE or not self._is_open:
            return
        if seen.attempt_id in self._starter.starting:  # `start` returns its state
            return
        before, task.state = task.state, seen.seen
        is_new_reason = seen.seen in _WAITING and seen.message != task.message
        task.message = seen.message
        if before is not seen.seen:
            self._changed_at = task.active_at = self._loop.time()
        if not seen.seen.alive:
            self._finish_watch(seen.attempt_id)
            self._background.start(self._sessions.end_sessions(seen.attempt_id))
        if seen.seen is ObservedState.EXITED and before in (ObservedState.QUEUED, ObservedState.STARTING):
            # It ran between two looks: its start is reported, too.
            running = replace(seen, seen=ObservedState.RUNNING, code=None, finished_at=None, artifacts=False, oom=False)
            self._on_change(replace(running, message="", cause=""))
        if (seen.seen is not before or is_new_reason) and not (before is None and seen.seen in _WAITING):
            self._on_change(seen)

    def _finish_watch(self, attempt_id: str) -> None:
        task = self._tasks.remove(attempt_id)
        if task is not None:
            task.recorder.finish_recording()

    # --- starting and ending ------------------------------------------------------------------------------------------

    async def start(self, launch: LaunchSpec) -> Observation:
        self._check_open()
        self._changed_at = self._loop.time()
        try:
            self._probe.use_partition(launch.engine_options.get("partition", ""))
            is_accepted = await self._starter.start_task(launch)
        except StartRefused as refusal:
            return make_refusal_observation(launch.attempt_id, refusal)
        if is_accepted:
            return await self._watch_accepted(launch.attempt_id)
        seen = (await self.observe([launch.attempt_id]))[launch.attempt_id]
        if seen.seen is ObservedState.ABSENT:
            raise SlurmUnavailable(msg("Slurm accepted the job, and does not know it any more"))
        return seen

    async def _watch_accepted(self, attempt_id: str) -> Observation:
        """Watch a task whose job Slurm has just accepted. It is not looked up: the next look shows where it is."""
        text, now = msg("Waits in Slurm's queue"), datetime.now(UTC)
        seen = Observation(attempt_id=attempt_id, seen=ObservedState.QUEUED, message=text, since=now)
        await self._watch_new([attempt_id])
        task = self._tasks.get(attempt_id)
        if task is not None:
            task.state, task.message = seen.seen, seen.message
        return seen

    async def observe(self, attempt_ids: Collection[str]) -> dict[str, Observation]:
        self._check_open()
        forming = [seen for id in attempt_ids if (seen := self._starter.find_forming(id)) is not None]
        known = {seen.attempt_id for seen in forming}
        found = await self._observer.observe([id for id in attempt_ids if id not in known])
        found.update({seen.attempt_id: seen for seen in forming})
        await self._watch_new([seen.attempt_id for seen in found.values() if seen.seen.alive])
        for seen in found.values():
            task = self._tasks.get(seen.attempt_id)
            if task is not None and task.state is None and seen.seen.alive:
                task.state, task.message = seen.seen, seen.message
            self._report(seen)
        return found

    async def _watch_new(self, attempt_ids: Sequence[str]) -> None:
        """Watch those that are not watched yet."""
        new = [attempt_id for attempt_id in attempt_ids if self._tasks.get(attempt_id) is None]
        if not new:
            return
        get_folder = self._observer.get_folder
        recorders = await self._run_in_thread(
            lambda: {attempt_id: self._tasks.open_recorder(get_folder(attempt_id)) for attempt_id in new}
        )
        for attempt_id, recorder in recorders.items():
            self._tasks.add(attempt_id, recorder, self._loop.time())

    async def explain_queue_wait(self, attempt_ids: Collection[str]) -> QueueWait | None:
        self._check_open()
        return await self._queue_waits.explain_wait(attempt_ids)

    async def stop(self, attempt_id: str, grace: float) -> None:
        self._check_open()
        if not is_safe_id(attempt_id):
            return
        self._starter.discard_gang(attempt_id)
        with suppress(SlurmUnavailable):
            seen = (await self.observe([attempt_id]))[attempt_id]
            if not seen.seen.alive and seen.seen is not ObservedState.UNREACHABLE:
                await self._end_revived(attempt_id)
                return
        self._stopper.stop(attempt_id, grace)

    async def remove(self, attempt_id: str) -> None:
        self._check_open()
        if not is_safe_id(attempt_id):
            return
        seen = (await self.observe([attempt_id]))[attempt_id]
        if seen.seen is ObservedState.ABSENT and attempt_id not in self._starter.starting:
            await self._starter.delete_files(attempt_id)
        elif seen.seen.final:
            await self._end_revived(attempt_id)
            await self._starter.empty_folders(attempt_id)
            await self._run_in_thread(lambda: self._cleaner.archive_folder(attempt_id))
            await self._run_in_thread(lambda: self._owners.forget_task(attempt_id))

    async def remove_logs(self, attempt_id: str) -> None:
        if is_safe_id(attempt_id):
            await self._run_in_thread(lambda: self._task_folders.delete_logs(attempt_id))

    async def list_attempts(self) -> Sequence[str]:
        """Return those with files, and those whose files were deleted while their jobs run."""
        found = set(filter(is_safe_id, await self._run_in_thread(self._task_folders.list_attempt_ids)))
        named: set[tuple[str, int]] = set()  # with the uids of their jobs: other users can use any name
        with suppress(SlurmUnavailable):
            for name, jobs in (await self._queue.look()).items():
                active = {(job.comment, job.uid) for job in jobs if not job.is_final and job.comment not in found}
                named |= {(id, uid) for id, uid in active if is_safe_id(id) and self._names.make_name(id) == name}
        return sorted(found | await self._run_in_thread(lambda: self._list_orphans(named)))

    def _list_orphans(self, named: Collection[tuple[str, int]]) -> set[str]:
        """Return the tasks without files whose jobs these are. Blocking."""
        own = {id for id, uid in named if self._owners.find_task_uid(id) == uid}
        return {attempt_id for attempt_id in own if not self._observer.get_folder(attempt_id).exists()}

    # --- sessions and metrics -----------------------------------------------------------------------------------------

    async def open_session(self, attempt_id: str, command: ExecCommand) -> ExecSession:
        self._check_open()
        return await self._sessions.open_session(attempt_id, command)

    async def connect_port(self, attempt_id: str, port: int) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        self._check_open()
        return await self._sessions.connect_port(attempt_id, port)

    async def list_processes(self, attempt_id: str) -> Sequence[TaskProcess]:
        self._check_open()
        return await self._sessions.list_processes(attempt_id)

    async def revive_task(self, launch: LaunchSpec) -> None:
        self._check_open()
        await self._revived.revive(launch)

    async def _end_revived(self, attempt_id: str) -> None:
        await self._revived.end(attempt_id)
        await self._sessions.end_sessions(attempt_id)

    async def measure_tasks(self, attempt_ids: Collection[str]) -> Mapping[str, Reading]:
        self._check_open()
        return await self._run_in_thread(lambda: self._observer.read_usages(attempt_ids))

    # --- logs and artifacts -------------------------------------------------------------------------------------------

    async def append_log(self, attempt_id: str, key: str, text: str) -> None:
        task = self._tasks.get(attempt_id)
        if task is not None:
            folder = self._observer.get_active_folder(attempt_id)
            await self._run_in_thread(lambda: task.append_log_once(folder, key, text))
            task.recorder.wake_readers()

    def open_log(self, attempt_id: str, stream: LogStream) -> LogSource | None:
        # A task that is watched has logs: the shared folder, which may not respond, is not asked.
        exists = self._tasks.get(attempt_id) is not None or self.find_log_folder(attempt_id) is not None
        return make_log(self, attempt_id, stream) if exists else None

    def find_log_folder(self, attempt_id: str) -> TaskFolder | None:
        return find_log_folder(self._task_folders, attempt_id)

    def get_followed_recorder(self, attempt_id: str) -> LogRecorder | None:
        return self._tasks.follow(attempt_id, self._loop.time())

    def is_in_transition(self, attempt_id: str) -> bool:
        return attempt_id in self._starter.starting

    def collect_artifacts(self, attempt_id: str, sink: ArtifactSink) -> None:
        if not is_safe_id(attempt_id):
            return
        folder = self._observer.get_folder(attempt_id)
        note, owner = folder.read_start_note(), folder.read_owner()
        if note is not None and not folder.is_alive():
            artifacts.collect_artifacts(folder, note, sink, owner.uid if owner else None)

    def _check_open(self) -> None:
        if not self._is_open:
            raise EngineError(msg("the engine is not running"))

    async def _run_in_thread(self, call: Callable[[], T]) -> T:
        try:
            future = self._loop.run_in_executor(self._threads, call)
        except RuntimeError as error:  # its threads have stopped
            raise EngineError(msg("the engine is not running")) from error
        return await future


_WAITING = (ObservedState.QUEUED, ObservedState.STARTING)
