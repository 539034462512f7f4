"""Runs tasks on this machine: each a detached process tree under a small shell runner, in a sandbox of bubblewrap.

All truth is in the task's folder and in the lock on its claim; what is kept in memory only saves looking. So the
server may die between any two lines. docs/explanation/sandbox.md tells the whole protocol.
"""

from __future__ import annotations

import asyncio
import logging
import os
import time
from collections.abc import Callable, Collection, Coroutine, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from resource import struct_rusage
from typing import Any, TypeVar

from holdfast.core.attempt import Observation, Seen
from holdfast.core.errors import EngineError, quoted
from holdfast.core.exits.exit import Cause
from holdfast.core.messages import msg
from holdfast.core.metrics.samples import GpuState, Reading
from holdfast.core.scheduling.placement import Node
from holdfast.engines.base import (
    ArtifactSink,
    Command,
    DiskUse,
    EngineHealth,
    ExecRefused,
    ImageInfo,
    Launch,
    LogSource,
    LogUse,
    ProcessInfo,
    Session,
    Stream,
    ignore_health,
)
from holdfast.hang_guard import HangGuard, NotResponding
from holdfast.supervision import supervise

from . import folder_content as read
from . import machine
from .cgroups import find_own_procs
from .exec.exec_sessions import Entering
from .images.image_store import ImageStore
from .lifecycle import artifacts, ending
from .lifecycle.disk_limits import DiskLimits, cap_logs, cut_ended_logs, measure_ended, scan_logs
from .lifecycle.join_warmup import JoinWarmup
from .lifecycle.live_tasks import LiveTask
from .lifecycle.logs import READERS, FileLog, MergedLog
from .lifecycle.notes import read_notes
from .lifecycle.places import Places, delete, was_out_of_memory
from .lifecycle.recorder import Recorder
from .lifecycle.reviving import Reviver
from .lifecycle.starting import Refusal, Started, Starter, refused
from .lifecycle.watching import Watch
from .metrics.measuring import Measuring
from .metrics.rounds import Subject
from .options import EmbeddedOptions
from .processes import open_child, open_pidfd, uptime
from .sandbox.mounting import try_source
from .sandbox.site import Site, find_site
from .sandbox.spawning import keep_descriptors_private
from .sandbox.views import Views
from .task_folder import TaskFolder, is_safe_id
from .threads import ready_threads

T = TypeVar("T")

logger = logging.getLogger(__name__)

_THREADS = 8
_MOUNT_WAIT = 30.0  # seconds for the folders of one task to answer
_AGAIN = 0.02  # seconds between two tries to reach a task that is still being set up
_KILL_AGAIN = 1.0  # seconds between two tries to kill one that will not go
_CLAIM_WAIT = 5.0  # seconds a spawned runner may take to say who it is
_MEMORY_INTERVAL = 1.0  # seconds
_CLEAN_AFTER = 60.0  # seconds a replaced image stays for those who are just starting on it
_STOPPING = 10.0  # seconds that somebody waits who wants to enter the files of a task that is just being stopped
_LEFT_ALONE = 60.0  # seconds between looks whether anybody is inside a task that was revived
_COMPLAINT = 500  # bytes of stderr that explain a failed set-up


class EmbeddedEngine:
    name = "embedded"

    def __init__(self, home: Path, options: EmbeddedOptions | None = None) -> None:
        self._options = options or EmbeddedOptions()
        self._places = Places(home)
        self._images = ImageStore(home / "images", self._options.marks)
        self._views = Views(home, self._options)
        self._starter: Starter | None = None
        self._entering: Entering | None = None
        self._reviver: Reviver | None = None
        self._revived: dict[str, asyncio.TimerHandle] = {}  # when it is to be seen whether anybody is inside
        self._site: Site | None = None
        self._watch: Watch | None = None
        self._warmup: JoinWarmup | None = None
        self._disk_limits = DiskLimits(self, self._options, self._in_thread)
        self._measuring = Measuring()
        self._unsettled: set[str] = set()  # attempts that run, or whose last processes do, though nobody watches them
        self._nodes: tuple[Node, ...] = ()
        self._work: set[asyncio.Task[object]] = set()
        self.log_readers = asyncio.Semaphore(READERS)
        self._on_change: Callable[[Observation], None] = lambda _: None
        self._on_health: Callable[[], None] = ignore_health

    # --- opening and closing --------------------------------------------------------------------------------------

    async def open(
        self, on_change: Callable[[Observation], None], on_health: Callable[[], None] = ignore_health
    ) -> None:
        self._on_change = on_change
        self._on_health = on_health
        self._loop = asyncio.get_running_loop()
        self._threads = ready_threads(_THREADS, "embedded")
        self._reach = HangGuard("embedded-mounts")
        self._cleaner = ThreadPoolExecutor(1, thread_name_prefix="embedded-cleaner")
        keep_descriptors_private()
        await self._in_thread(self._settle_in)
        self._watch = Watch(self._ended, self._heard)
        assert self._reviver is not None
        for attempt_id in await self._in_thread(self._reviver.known):
            self._keep_revived(attempt_id)
        self._background(supervise("sandbox", self._retry_sandbox))
        self._background(supervise("memory", self._watch_memory))
        self._background(supervise("disk-limits", self._disk_limits.watch))

    def _settle_in(self) -> None:
        """Find out what can be done here, and put away what was left by a server that died."""
        self._places.make()
        self._site = site = find_site(self._places.home, self._options, self._views)
        self._starter = Starter(self._options, site, self._views, self._images, self._places, self._unsettled)
        self._entering = Entering(self._places, site, self._in_thread)
        self._reviver = Reviver(self._options, site, self._views, self._images, self._places, set())
        self._nodes = (machine.find_node(self._options, site.gpus),)
        self._clean(delete, (*self._places.trash(), *self._images.unfinished()))
        self._warmup = JoinWarmup(find_own_procs) if site.groups is not None else None
        if site.groups is not None:  # here, before anything is started: an empty group may be one that is being made
            site.groups.sweep(self._places.machine_name(""), set(map(self._places.machine_name, self._places.tasks())))
        self._clean(self._clean_shared)

    async def _retry_sandbox(self) -> None:
        """Look again whether tasks can be isolated as they must be, until they can."""
        while self._current_site().condition is not None:
            await asyncio.sleep(self._options.sandbox_retry)
            before = self._current_site().condition
            site = await self._in_thread(lambda: find_site(self._places.home, self._options, self._views))
            self._use_site(site)
            if site.condition != before:
                self._on_health()

    def _use_site(self, site: Site) -> None:
        assert self._starter is not None
        assert self._reviver is not None
        self._site = site
        self._starter.use_site(site)
        self._reviver.use_site(site)
        self._door.use_site(site)

    def _clean_shared(self) -> None:
        """Remove layers and images nothing stands on any more."""
        in_use = self._places.in_use()
        self._images.clean(in_use)
        self._views.clean(in_use)

    async def close(self) -> None:
        if self._watch is not None:
            self._watch.close()
            self._watch = None
            self._door.close()
            for timer in self._revived.values():
                timer.cancel()
            for task in self._work:
                task.cancel()
            await asyncio.to_thread(self._threads.shutdown)
            if self._warmup is not None:
                await asyncio.to_thread(self._warmup.close)
            self._measuring.close()
            await asyncio.to_thread(self._end_cleaning)

    def _end_cleaning(self) -> None:
        self._cleaner.shutdown(wait=True, cancel_futures=True)
        self._views.leave(self._places.in_use())  # last: cleaning makes the folder that this takes away

    def health(self) -> EngineHealth:
        site = self._current_site()
        limits = site.groups.label if site.groups else "watched"
        conditions = (site.condition,) if site.condition else ()
        return EngineHealth(
            name=self.name, isolation=site.isolation, limits=limits, notes=site.notes, conditions=conditions
        )

    def nodes(self) -> Sequence[Node]:
        return self._nodes

    async def images(self) -> Sequence[ImageInfo]:
        return await self._in_thread(self._images.infos)

    async def import_image(self, name: str, file: Path) -> ImageInfo:
        """From a docker-save tar, an OCI layout or a rootfs tar. UserError when it is none of them, or has no shell."""
        info = await self._in_thread(lambda: self._images.add(name, file, needs_shell=True))
        self._loop.call_later(_CLEAN_AFTER, self._clean_later)
        return info

    async def remove_image(self, name: str) -> bool:
        """False when there was none. What runs on it runs on."""
        removed = await self._in_thread(lambda: self._images.remove(name))
        self._loop.call_later(_CLEAN_AFTER, self._clean_later)
        return removed

    def _clean_later(self) -> None:
        if self._watch is not None:
            self._clean(self._clean_shared)

    # --- starting and looking -------------------------------------------------------------------------------------

    def prepare_start(self) -> None:
        if self._warmup is not None:
            self._warmup.begin()

    async def start(self, launch: Launch) -> Observation:
        self.prepare_start()
        live = self._watching.get(launch.attempt_id)
        if live is not None:
            return self._running(live)
        try:
            if launch.mounts and is_safe_id(launch.attempt_id) and not self._places.folder(launch.attempt_id).exists():
                await self._reach_mounts(launch)
            started = await self._in_thread(lambda: self._start(launch))
        except Refusal as refusal:
            return refused(launch.attempt_id, refusal)
        if started is None:
            return (await self.observe([launch.attempt_id]))[launch.attempt_id]
        live = self._watching.get(launch.attempt_id)
        if live is not None:
            return self._running(live)
        return (await self.observe([launch.attempt_id]))[launch.attempt_id]

    async def _reach_mounts(self, launch: Launch) -> None:
        """A file system of the network that no longer answers holds whoever looks at it."""
        try:
            for source in dict.fromkeys(mount.source for mount in launch.mounts):
                await self._reach.look(source, partial(try_source, source), _MOUNT_WAIT)
        except NotResponding:
            text = msg("A folder that it mounts does not answer.")
            raise Refusal(text, cause=Cause.START_FAILED, transient=True) from None

    def _start(self, launch: Launch) -> Started | None:
        if not is_safe_id(launch.attempt_id):
            raise Refusal(
                msg("The attempt id {attempt_id} cannot be used as a file name.", attempt_id=repr(launch.attempt_id))
            )
        folder = self._places.folder(launch.attempt_id)
        assert self._starter is not None
        started = self._starter.start(launch, folder)
        if started is not None:
            # From the thread, so that the task is watched even if whoever asked for it is gone by now.
            pidfd = open_child(started.pid)
            self._loop.call_soon_threadsafe(self._take_up, launch.attempt_id, started, pidfd)
        return started

    def _take_up(self, attempt_id: str, started: Started, pidfd: int | None) -> None:
        self._unsettled.discard(attempt_id)
        if self._watch is None:
            if pidfd is not None:
                os.close(pidfd)
            return
        task = self._live_task(attempt_id, started.folder, started.note, started.pid, pidfd, uptime())
        self._watch.add(task)

    def _live_task(
        self,
        attempt_id: str,
        folder: TaskFolder,
        note: read.StartNote | None,
        pid: int,
        pidfd: int | None,
        started_at: float,
    ) -> LiveTask:
        return LiveTask(
            attempt_id=attempt_id,
            folder=folder,
            note=note,
            recorder=Recorder(folder, self._options.log_cap),
            pid=pid,
            pidfd=pidfd,
            started_at=started_at,
        )

    async def observe(self, attempt_ids: Collection[str]) -> dict[str, Observation]:
        seen: dict[str, Observation] = {}
        watched = [task for attempt_id in attempt_ids if (task := self._watching.get(attempt_id))]
        await self._check_runners(watched)
        unknown = []
        for attempt_id in attempt_ids:
            live = self._watching.get(attempt_id)
            if live is not None:
                seen[attempt_id] = self._running(live)
            else:
                unknown.append(attempt_id)
        if unknown:
            for found in await self._in_thread(lambda: [self._look(attempt_id) for attempt_id in unknown]):
                seen[found.attempt_id] = found
                if found.seen in (Seen.RUNNING, Seen.HELD):
                    await self._adopt(found.attempt_id)
        return seen

    async def _check_runners(self, tasks: list[LiveTask]) -> None:
        """The kernel tells us of their ends; should that be lost, the lock on the claim still says so."""
        dead = await self._in_thread(lambda: [task for task in tasks if not task.folder.is_alive()]) if tasks else []
        for task in dead:
            if self._watch is not None:
                self._watch.check_end(task)

    def _look(self, attempt_id: str) -> Observation:
        """What the files and the lock say. The claim is read again after the lock was found free: it may have
        ended in between."""
        if not is_safe_id(attempt_id):
            return Observation(attempt_id=attempt_id, seen=Seen.ABSENT)
        folder = self._places.folder(attempt_id)
        note = folder.read_start()
        if folder.is_alive():
            running = read.running(attempt_id, note, folder.read_claim(), uptime())
            return read.with_notes(running, note, read_notes(folder), partial(was_out_of_memory, folder, note))
        claim = folder.read_claim()
        if claim.code is not None:
            return self._end(attempt_id, folder, note, claim)
        return read.not_alive(attempt_id, note, claim, self._current_site().boot)

    def _end(
        self,
        attempt_id: str,
        folder: TaskFolder,
        note: read.StartNote | None,
        claim: read.Claim,
        waited: struct_rusage | None = None,
    ) -> Observation:
        oom = claim.code != 0 and was_out_of_memory(folder, note)
        complaint = "" if claim.command_code is not None else quoted(folder.read_head("stderr", _COMPLAINT))
        seen = read.ended(
            attempt_id,
            note,
            claim,
            oom=oom,
            complaint=complaint,
            excess=folder.read_full() if note is not None else None,
            artifacts=artifacts.may_have_artifacts(folder, note),
        )
        failed_by_itself = seen.seen is Seen.EXITED and seen.code and not (seen.cause or seen.oom)
        if failed_by_itself and self._disk_limits.was_disk_full(self._places.home, claim.ended or uptime()):
            seen = replace(seen, cause=Cause.DISK_WAS_FULL)
        return replace(seen, used=self._measuring.used(attempt_id, note, claim.ended or uptime(), waited))

    async def _adopt(self, attempt_id: str) -> None:
        """Take up watching what another server, or we in another life, started."""
        task = await self._in_thread(lambda: self._find_runner(attempt_id))
        self._watching.add(task)

    def _find_runner(self, attempt_id: str) -> LiveTask:
        folder = self._places.folder(attempt_id)
        end = time.monotonic() + _CLAIM_WAIT
        claim = folder.read_claim()
        while claim.pid is None and folder.is_alive() and time.monotonic() < end:
            time.sleep(0.001)
            claim = folder.read_claim()
        pidfd = None
        if claim.pid is not None and claim.started is not None:
            pidfd = open_pidfd(claim.pid, claim.started)
        started_at = claim.started / read.TICKS if claim.started is not None else uptime()
        return self._live_task(attempt_id, folder, folder.read_start(), claim.pid or 0, pidfd, started_at)

    def _running(self, task: LiveTask) -> Observation:
        seen = Observation(
            attempt_id=task.attempt_id,
            seen=Seen.RUNNING,
            started_at=task.note.at if task.note else None,
            elapsed=max(0.0, uptime() - task.started_at),
            warning=task.note.warning if task.note else "",
        )
        return read.with_notes(seen, task.note, task.notes, partial(was_out_of_memory, task.folder, task.note))

    def _heard(self, task: LiveTask) -> None:
        """Told by the watch: its notes say something new."""
        self._on_change(self._running(task))

    def _ended(self, task: LiveTask) -> None:
        """Told by the watch: runner and sandbox are gone."""
        if task.note is not None and not task.note.sandbox:
            self._unsettled.add(task.attempt_id)
        self._background(self._look_closer(task))

    async def _look_closer(self, task: LiveTask) -> None:
        """Find out how it ended and what it used; where there is no namespace, kill what is left."""

        def look() -> Observation:
            if task.note is not None and not task.note.sandbox:
                ending.kill_plain(self.target_of(task)._replace(runner=0))
            if task.claim.code is not None:
                return self._end(task.attempt_id, task.folder, task.note, task.claim, task.waited)
            return self._look(task.attempt_id)

        try:
            seen = await self._in_thread(look)
        finally:
            self._unsettled.discard(task.attempt_id)
        self._measuring.forget(task.attempt_id)
        self._on_change(seen)

    # --- ending ---------------------------------------------------------------------------------------------------

    async def announce(self, attempt_id: str, key: str, text: str) -> None:
        task = self._watching.get(attempt_id)
        if task is not None:
            await self._in_thread(lambda: task.folder.announce(key, text))

    async def stop(self, attempt_id: str, grace: float) -> None:
        if self._watching.get(attempt_id) is None:
            await self.observe([attempt_id])
        task = self._watching.get(attempt_id)
        if task is None:
            await self._in_thread(lambda: self._end_revived(attempt_id))
            return
        kill_at = self._loop.time() + max(0.0, grace)
        first = task.kill_at is None
        if task.kill_at is not None and task.kill_at <= kill_at:
            return
        task.kill_at = kill_at
        if task.kill_timer is not None:
            task.kill_timer.cancel()
        task.kill_timer = self._loop.call_at(kill_at, self._kill_due, task, False)
        if first and grace > 0:
            self._background(self._terminate(task))

    async def _terminate(self, task: LiveTask) -> None:
        """A task that is still being set up has nobody to ask yet."""
        while self.is_live(task) and task.kill_at is not None and self._loop.time() < task.kill_at:
            if await self._in_thread(lambda: ending.terminate(self.target_of(task))):
                return
            await asyncio.sleep(_AGAIN)

    def _kill_due(self, task: LiveTask, again: bool) -> None:
        if self.is_live(task):
            task.kill_timer = self._loop.call_later(_KILL_AGAIN, self._kill_due, task, True)
            self._background(self._in_thread(lambda: ending.kill(self.target_of(task), again=again)))

    async def _watch_memory(self) -> None:
        """Where the kernel does not limit memory, we do: once a second."""
        while True:
            await asyncio.sleep(_MEMORY_INTERVAL)
            for task in self._watching:
                if task.note is not None and task.note.memory:
                    try:
                        await self._check_memory(task, task.note.memory)
                    except OSError as error:  # of this task alone; the others are checked all the same
                        said = {"event": "memory", "attempt": task.attempt_id, "error": str(error)}
                        logger.warning(msg("could not check the memory of a task"), extra=said)

    async def _check_memory(self, task: LiveTask, limit: int) -> None:
        target = self.target_of(task)
        if await self._in_thread(lambda: ending.users_memory(target, limit)) <= limit:
            return
        with suppress(OSError):  # a full disk must not keep it running; then its end says less
            task.folder.mark_out_of_memory()
        await self.stop(task.attempt_id, 0)

    def live_tasks(self) -> list[LiveTask]:
        return list(self._watch) if self._watch is not None else []

    async def measure_disk(self) -> Mapping[str, DiskUse]:
        return await self._disk_limits.measure()

    async def cut_logs(self, keep: int, wanted: int, *, ended: bool = False) -> int:
        if ended:
            return await self._in_thread(lambda: cut_ended_logs(self._places, keep, wanted))
        return await self._disk_limits.cut_logs(keep, wanted)

    async def stop_for_disk(
        self, attempt_id: str, use: DiskUse, free: int, grace: float, *, files: bool = False
    ) -> None:
        await self._disk_limits.stop_for_disk(attempt_id, use, free, grace, files=files)

    def note_disk_full(self, seconds_ago: float = 0.0) -> None:
        self._disk_limits.full_at = uptime() - seconds_ago

    async def measure_ended(self, attempt_ids: Collection[str]) -> Mapping[str, int]:
        ids = [attempt_id for attempt_id in attempt_ids if is_safe_id(attempt_id)]
        return await self._in_thread(lambda: measure_ended(self._places, ids))

    async def scan_logs(self, timeout: float) -> tuple[Mapping[str, LogUse], bool]:
        return await self._in_thread(lambda: scan_logs(self._places, timeout))

    def is_live(self, task: LiveTask) -> bool:
        return self._watch is not None and self._watch.get(task.attempt_id) is task

    def target_of(self, task: LiveTask) -> ending.Target:
        cookie = self._places.machine_name(task.attempt_id)
        return ending.Target(cookie, task.folder, task.note, task.pid, self._door.helpers(task.attempt_id))

    async def remove(self, attempt_id: str) -> None:
        if is_safe_id(attempt_id) and self._watching.get(attempt_id) is None:
            await self._in_thread(lambda: self._remove(attempt_id))

    def _remove(self, attempt_id: str) -> None:
        self._end_revived(attempt_id)
        name = self._places.machine_name(attempt_id)
        folder = self._places.folder(attempt_id)
        note = folder.read_start()
        if note is not None and not note.sandbox and folder.read_claim().code is None and not folder.is_alive():
            ending.kill_plain(ending.Target(name, folder, note, 0))  # its runner was killed; it may run on alone
        if folder.exists() and not folder.is_alive():
            cap_logs(folder, self._options.log_cap)
        trash = self._places.put_away(attempt_id)
        groups = self._current_site().groups
        if trash is not None:
            made = note.cgroups if note else groups.folders(name) if groups else ()
            self._clean(delete, trash, made)

    def collect(self, attempt_id: str, sink: ArtifactSink) -> None:
        if not is_safe_id(attempt_id):
            return
        folder = self._places.folder(attempt_id)
        note = folder.read_start()
        if note is not None and not folder.is_alive():
            artifacts.collect(folder, note, sink)

    async def remove_logs(self, attempt_id: str) -> None:
        if is_safe_id(attempt_id):
            await self.remove(attempt_id)
            await self._in_thread(lambda: self._places.remove_logs(attempt_id))

    async def list_attempts(self) -> Sequence[str]:
        return await self._in_thread(self._places.tasks)

    # --- letting people in ----------------------------------------------------------------------------------------

    async def enter(self, attempt_id: str, command: Command) -> Session:
        return await self._door.enter(attempt_id, command)

    async def connect(self, attempt_id: str, port: int) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        return await self._door.connect(attempt_id, port)

    async def revive(self, launch: Launch) -> None:
        try:
            await self._reach_mounts(launch)
        except Refusal as refusal:
            raise ExecRefused(refusal.message) from refusal
        reviver = self._reviver
        assert reviver is not None
        await self.wait_until_gone(launch.attempt_id)  # so that its files alone are kept
        await self._in_thread(lambda: reviver.revive(launch))
        self._keep_revived(launch.attempt_id)

    async def wait_until_gone(self, attempt_id: str) -> None:
        """For one that is being stopped; not for ever."""
        task = self._watching.get(attempt_id)
        if task is not None:
            with suppress(TimeoutError):
                async with asyncio.timeout(_STOPPING):
                    await task.gone.wait()

    def _keep_revived(self, attempt_id: str) -> None:
        """Nobody counts what it uses: so it goes some time after the last who was inside."""
        timer = self._revived.pop(attempt_id, None)
        if timer is not None:
            timer.cancel()
        self._revived[attempt_id] = self._loop.call_later(_LEFT_ALONE, self._is_left, attempt_id)

    def _is_left(self, attempt_id: str) -> None:
        if self._door.helpers(attempt_id):
            self._keep_revived(attempt_id)
        else:
            self._revived.pop(attempt_id, None)
            self._background(self._in_thread(lambda: self._end_revived(attempt_id)))

    def _end_revived(self, attempt_id: str) -> None:
        if self._reviver is not None:
            self._reviver.end(attempt_id)

    async def processes(self, attempt_id: str) -> Sequence[ProcessInfo]:
        return await self._door.processes(attempt_id)

    @property
    def _door(self) -> Entering:
        if self._entering is None:
            raise EngineError(msg("the engine is not open"))
        return self._entering

    # --- measuring ------------------------------------------------------------------------------------------------

    async def measure(self, attempt_ids: Collection[str]) -> Mapping[str, Reading]:
        asked = {id for id in attempt_ids if self._watching.get(id) is not None}
        return await self._measuring.measure(self._subjects(), asked) if asked else {}

    async def gpus(self) -> Mapping[str, Sequence[GpuState]]:
        node = self._nodes[0]
        if not node.gpus:
            return {}
        return {node.name: await self._measuring.look_at_gpus(self._subjects())}

    def _subjects(self) -> list[Subject]:
        return [self._subject(task, task.note) for task in self._watching if task.note is not None]

    def _subject(self, task: LiveTask, note: read.StartNote) -> Subject:
        target = self.target_of(task)
        return Subject(task.attempt_id, note, task.pid, target.helpers, target.cookie)

    # --- logs -----------------------------------------------------------------------------------------------------

    def log(self, attempt_id: str, stream: Stream) -> LogSource | None:
        if self.log_folder(attempt_id) is None:
            return None
        return MergedLog(self, attempt_id) if stream is Stream.MERGED else FileLog(self, attempt_id, stream)

    def log_folder(self, attempt_id: str) -> TaskFolder | None:
        if not is_safe_id(attempt_id):
            return None
        for _ in range(2):  # it may be put away between the two looks
            folder = self._places.folder(attempt_id)
            if os.path.lexists(folder["stdout"]):
                return folder
        return None

    def recorder(self, attempt_id: str) -> Recorder | None:
        task = self._watching.get(attempt_id)
        if task is None:
            return None
        self._watching.follow(task)
        return task.recorder

    def is_unsettled(self, attempt_id: str) -> bool:
        return attempt_id in self._unsettled

    # --- small things ---------------------------------------------------------------------------------------------

    def _current_site(self) -> Site:
        if self._site is None:
            raise EngineError(msg("the engine is not open"))
        return self._site

    @property
    def _watching(self) -> Watch:
        if self._watch is None:
            raise EngineError(msg("the engine is not open"))
        return self._watch

    async def _in_thread(self, call: Callable[[], T]) -> T:
        try:
            future = self._loop.run_in_executor(self._threads, call)
        except RuntimeError as error:  # its threads are gone
            raise EngineError(msg("the engine is not open")) from error
        return await future

    def _clean(self, call: Callable[..., None], *words: Any) -> None:
        """Some time soon; what is not cleaned when we close is cleaned at the next open."""
        with suppress(RuntimeError):  # closed by now
            self._cleaner.submit(call, *words)

    def _background(self, work: Coroutine[Any, Any, object]) -> None:
        task = self._loop.create_task(work)
        self._work.add(task)
        task.add_done_callback(self._work_done)

    def _work_done(self, task: asyncio.Task[object]) -> None:
        self._work.discard(task)
        if not task.cancelled() and task.exception() is not None:
            logger.error(msg("background work failed"), exc_info=task.exception())
