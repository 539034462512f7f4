"""Disk usage of the server by kind and by user."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from pathlib import Path
from typing import TypeVar

from holdfast.core.access import Actor
from holdfast.core.attempt import JobSnapshot, TaskAttempt
from holdfast.core.image_names import list_name_variants
from holdfast.core.job import HoldScope
from holdfast.core.messages import msg
from holdfast.disk_space import DiskSpace, DiskThresholds, read_disk_space
from holdfast.engines.base import ImageSummary, LogUsage
from holdfast.engines.engine_set import EngineSet
from holdfast.hang_guard import HangGuard, NotResponding
from holdfast.shared_folders import SharedFolders
from holdfast.store.database import Store
from holdfast.store.jobs import finish_times
from holdfast.tree_size import measure_tree

from ..control import Control
from ..errors import Unavailable
from ..jobs.artifact_retention import ArtifactCleanup
from ..permissions import require_admin

T = TypeVar("T")

SCAN_TIMEOUT = 10.0  # seconds for each kind; after that the report is marked as incomplete
DISK_TIMEOUT = 60.0  # seconds for the disk to respond


class StorageKind(StrEnum):
    LOGS = "logs"  # of jobs that have ended
    ARTIFACTS = "artifacts"
    HELD = "held"  # files of tasks on hold without processes
    IMAGES = "images"
    METRICS = "metrics"
    TASKS = "tasks"  # files of tasks that run
    FILES = "files"  # groups' volumes and shared files, without artifacts
    DATABASE = "database"


PRUNABLE_KINDS = frozenset(
    {StorageKind.LOGS, StorageKind.ARTIFACTS, StorageKind.HELD, StorageKind.IMAGES, StorageKind.METRICS}
)


@dataclass(frozen=True, slots=True, kw_only=True)
class StorageUsage:
    kind: StorageKind
    bytes: int
    count: int | None = None  # jobs, tasks or images
    oldest: datetime | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class StorageReport:
    disk: DiskSpace  # of the state folder
    full_below: int  # bytes free
    items: tuple[StorageUsage, ...]
    users: Mapping[str, Mapping[StorageKind, int]] = field(default_factory=dict)  # bytes of logs and artifacts
    complete: bool = True  # everything was counted


@dataclass(frozen=True, slots=True)
class JobStorage:
    """Stored files of one ended job."""

    user: str
    finished_at: datetime
    bytes: int
    tasks: int = 1


class DiskReports:
    def __init__(
        self,
        store: Store,
        engine: EngineSet,
        control: Control,
        home: Path,
        shared: SharedFolders,
        artifacts: ArtifactCleanup,
        marks: DiskThresholds,
        *,
        clock: Callable[[], datetime],
    ) -> None:
        self._store = store
        self._engine = engine
        self._control = control
        self._home = home
        self._shared = shared
        self._artifacts = artifacts
        self._disk_thresholds = marks
        self._clock = clock
        self._hang_guard = HangGuard("disk-report")
        self._lock = asyncio.Lock()  # one at a time: it reads every folder

    async def build_report(self, actor: Actor) -> StorageReport:
        """Measure disk usage, which may take some seconds; admins only."""
        require_admin(actor, msg("Only admins can see disk usage"))
        async with self._lock:
            return await self._build_report()

    async def _build_report(self) -> StorageReport:
        space = await self._run_in_thread(lambda: read_disk_space(self._home))
        logs, complete = await self.measure_logs()
        artifacts = await self.measure_artifacts(self._clock())
        files, everything = await self._measure_folder(self._shared.root)
        kept = sum(job.bytes for job in artifacts.values())
        items = (
            _build_usage(StorageKind.LOGS, logs),
            _build_usage(StorageKind.ARTIFACTS, artifacts),
            await self._build_held_usage(),
            await self._build_image_usage(),
            StorageUsage(kind=StorageKind.METRICS, bytes=await self._measure_database("metrics.db")),
            await self._build_task_usage(),
            StorageUsage(kind=StorageKind.FILES, bytes=max(0, files - kept)),
            StorageUsage(kind=StorageKind.DATABASE, bytes=await self._measure_database("holdfast.db")),
        )
        return StorageReport(
            disk=space,
            full_below=self._disk_thresholds.compute_full_threshold_bytes(space),
            items=items,
            users=_sum_by_user({StorageKind.LOGS: logs, StorageKind.ARTIFACTS: artifacts}),
            complete=complete and everything,
        )

    async def measure_logs(self) -> tuple[dict[str, JobStorage], bool]:
        """Return the logs of ended jobs, and whether all were counted."""
        found, complete = await self._engine.measure_logs_by_job(SCAN_TIMEOUT)
        return await self._select_ended_jobs(found), complete

    async def measure_artifacts(self, before: datetime) -> dict[str, JobStorage]:
        """Return the artifacts of jobs that ended before `before`."""
        due = await self._artifacts.find_expired_artifacts(before)
        deadline = time.monotonic() + SCAN_TIMEOUT

        def measure_folders() -> dict[str, LogUsage]:
            places = {id: self._shared.get_artifacts_folder(group, id) for group, ids in due.items() for id in ids}
            return {id: LogUsage(measure_tree(folder, deadline), 1) for id, folder in places.items()}

        return await self._select_ended_jobs(await self._run_in_thread(measure_folders))

    def list_files_only_holds(self, before: datetime) -> list[tuple[JobSnapshot, TaskAttempt]]:
        """Return tasks of which only files are on hold, since before `before`."""
        return [
            (snapshot, task)
            for snapshot, task in self._control.list_held_tasks()
            if task.held and task.held.keep is HoldScope.FILES and task.stop is None and task.held.since <= before
        ]

    async def measure_held_files(self, held: list[tuple[JobSnapshot, TaskAttempt]]) -> int:
        ids = [snapshot.build_attempt_id(task) for snapshot, task in held]
        return sum((await self._engine.measure_ended_tasks(ids)).values())

    async def list_unused_images(self, before: datetime) -> list[ImageSummary]:
        """Return images imported before `before` that no unfinished job uses."""
        used = {
            name
            for snapshot in self._control.list_snapshots()
            for role in snapshot.job.roles
            for name in list_name_variants(role.engine_image)
        }
        return [
            image
            for image in await self._engine.list_images()
            if image.created_at is not None and image.created_at <= before and image.name not in used
        ]

    async def _select_ended_jobs(self, uses: Mapping[str, LogUsage]) -> dict[str, JobStorage]:
        owners = await self._store.read(finish_times.load_owners_and_finish_times, list(uses)) if uses else {}
        return {
            id: JobStorage(user, finished, uses[id].bytes, uses[id].tasks)
            for id, (user, finished) in owners.items()
            if finished is not None
        }

    async def _build_held_usage(self) -> StorageUsage:
        held = self.list_files_only_holds(self._clock())
        oldest = min((task.held.since for _, task in held if task.held), default=None)
        return StorageUsage(
            kind=StorageKind.HELD, bytes=await self.measure_held_files(held), count=len(held), oldest=oldest
        )

    async def _build_image_usage(self) -> StorageUsage:
        images = [image for image in await self._engine.list_images() if image.size is not None]
        oldest = min((image.created_at for image in images if image.created_at), default=None)
        return StorageUsage(
            kind=StorageKind.IMAGES, bytes=sum(image.size or 0 for image in images), count=len(images), oldest=oldest
        )

    async def _build_task_usage(self) -> StorageUsage:
        uses = await self._engine.measure_disk()
        return StorageUsage(kind=StorageKind.TASKS, bytes=sum(use.bytes for use in uses.values()), count=len(uses))

    async def _measure_database(self, name: str) -> int:
        """Return the size of a database with its log and backups; 0 if it is not in the state folder."""
        return await self._run_in_thread(lambda: sum(_measure_file(path) for path in self._home.glob(f"{name}*")))

    async def _measure_folder(self, folder: Path) -> tuple[int, bool]:
        deadline = time.monotonic() + SCAN_TIMEOUT
        found = await self._run_in_thread(lambda: measure_tree(folder, deadline))
        return found, time.monotonic() < deadline

    async def _run_in_thread(self, work: Callable[[], T]) -> T:
        try:
            return await self._hang_guard.run_with_timeout(work, DISK_TIMEOUT)
        except NotResponding:
            raise Unavailable(msg("The disk is not responding"), hint=msg("Try again later.")) from None


def _build_usage(kind: StorageKind, jobs: Mapping[str, JobStorage]) -> StorageUsage:
    return StorageUsage(
        kind=kind,
        bytes=sum(job.bytes for job in jobs.values()),
        count=len(jobs),
        oldest=min((job.finished_at for job in jobs.values()), default=None),
    )


def _sum_by_user(jobs: Mapping[StorageKind, Mapping[str, JobStorage]]) -> dict[str, dict[StorageKind, int]]:
    found: dict[str, dict[StorageKind, int]] = {}
    for kind, kept in jobs.items():
        for job in kept.values():
            sizes = found.setdefault(job.user, dict.fromkeys(jobs, 0))
            sizes[kind] += job.bytes
    return dict(sorted(found.items(), key=lambda item: -sum(item[1].values())))


def _measure_file(path: Path) -> int:
    try:
        return path.stat().st_blocks * 512
    except FileNotFoundError:  # removed since it was listed
        return 0
