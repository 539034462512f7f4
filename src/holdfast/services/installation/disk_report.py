"""What takes room on the server's disks, by kind and by user."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from pathlib import Path
from typing import TypeVar

from holdfast.core.access import Actor, Verb, may
from holdfast.core.attempt import JobSnapshot, TaskAttempt
from holdfast.core.errors import Forbidden
from holdfast.core.job import Keep
from holdfast.core.messages import msg
from holdfast.disk_space import DiskMarks, DiskSpace, read_disk_space
from holdfast.engines.base import Engine, ImageInfo, LimitsDisk, LogUse
from holdfast.hang_guard import HangGuard, NotResponding
from holdfast.shared_folders import SharedFolders
from holdfast.store.database import Store
from holdfast.store.jobs import endings
from holdfast.tree_size import measure_tree

from ..control import Control
from ..jobs.artifact_retention import ArtifactSweep
from ..refusals import Unavailable

T = TypeVar("T")

SCAN_TIMEOUT = 10.0  # seconds for each kind; what is not counted by then is left out, and the report says so
DISK_TIMEOUT = 60.0  # seconds for the disk to answer


class StorageKind(StrEnum):
    LOGS = "logs"  # of jobs that have ended
    ARTIFACTS = "artifacts"
    HELD = "held"  # files of held tasks whose processes are gone
    IMAGES = "images"
    METRICS = "metrics"
    TASKS = "tasks"  # files of tasks that run
    FILES = "files"  # groups' volumes and shared files, without artifacts
    DATABASE = "database"


PRUNABLE = frozenset(
    {StorageKind.LOGS, StorageKind.ARTIFACTS, StorageKind.HELD, StorageKind.IMAGES, StorageKind.METRICS}
)


@dataclass(frozen=True, slots=True, kw_only=True)
class StorageItem:
    kind: StorageKind
    bytes: int
    count: int | None = None  # jobs, tasks or images
    oldest: datetime | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class StorageReport:
    disk: DiskSpace  # of the state folder
    full_below: int  # bytes free
    items: tuple[StorageItem, ...]
    users: Mapping[str, Mapping[StorageKind, int]] = field(default_factory=dict)  # bytes of logs and artifacts
    complete: bool = True  # everything was counted


@dataclass(frozen=True, slots=True)
class JobStorage:
    """What is kept of one job that has ended."""

    user: str
    finished_at: datetime
    bytes: int
    tasks: int = 1


class DiskReports:
    def __init__(
        self,
        store: Store,
        engine: Engine,
        control: Control,
        home: Path,
        shared: SharedFolders,
        artifacts: ArtifactSweep,
        marks: DiskMarks,
        *,
        clock: Callable[[], datetime],
    ) -> None:
        self._store = store
        self._engine = engine
        self._control = control
        self._home = home
        self._shared = shared
        self._artifacts = artifacts
        self._marks = marks
        self._clock = clock
        self._reach = HangGuard("disk-report")
        self._turn = asyncio.Lock()  # one at a time: it reads every folder

    async def report(self, actor: Actor) -> StorageReport:
        """For admins. It may take some seconds."""
        if not may(actor, Verb.MANAGE_PLACE):
            raise Forbidden(msg("Only admins see what takes room on the disk"))
        async with self._turn:
            return await self._report()

    async def _report(self) -> StorageReport:
        space = await self._in_thread(lambda: read_disk_space(self._home))
        logs, complete = await self.logs()
        artifacts = await self.artifacts(self._clock())
        files, everything = await self._measure(self._shared.root)
        metrics, all_metrics = await self._measure(self._home / "metrics")
        kept = sum(job.bytes for job in artifacts.values())
        items = (
            _item(StorageKind.LOGS, logs),
            _item(StorageKind.ARTIFACTS, artifacts),
            await self._held(),
            await self._images(),
            StorageItem(kind=StorageKind.METRICS, bytes=metrics),
            await self._tasks(),
            StorageItem(kind=StorageKind.FILES, bytes=max(0, files - kept)),
            StorageItem(kind=StorageKind.DATABASE, bytes=await self._in_thread(self._database)),
        )
        return StorageReport(
            disk=space,
            full_below=self._marks.full(space),
            items=items,
            users=_by_user({StorageKind.LOGS: logs, StorageKind.ARTIFACTS: artifacts}),
            complete=complete and everything and all_metrics,
        )

    async def logs(self) -> tuple[dict[str, JobStorage], bool]:
        """Of jobs that have ended; with whether all were counted."""
        if not isinstance(self._engine, LimitsDisk):
            return {}, True
        found, complete = await self._engine.scan_logs(SCAN_TIMEOUT)
        return await self._ended(found), complete

    async def artifacts(self, before: datetime) -> dict[str, JobStorage]:
        """Of jobs that ended before then."""
        due = await self._artifacts.find_due(before)
        deadline = time.monotonic() + SCAN_TIMEOUT

        def measure() -> dict[str, LogUse]:
            places = {id: self._shared.artifacts(group, id) for group, ids in due.items() for id in ids}
            return {id: LogUse(measure_tree(folder, deadline), 1) for id, folder in places.items()}

        return await self._ended(await self._in_thread(measure))

    def held(self, before: datetime) -> list[tuple[JobSnapshot, TaskAttempt]]:
        """Tasks of which nothing but files is held, since before then."""
        return [
            (snapshot, task)
            for snapshot, task in self._control.held()
            if task.held and task.held.keep is Keep.FILES and task.stop is None and task.held.since <= before
        ]

    async def held_bytes(self, held: list[tuple[JobSnapshot, TaskAttempt]]) -> int:
        ids = [snapshot.attempt_id(task) for snapshot, task in held]
        return sum((await self._engine.measure_ended(ids)).values()) if isinstance(self._engine, LimitsDisk) else 0

    async def unused_images(self, before: datetime) -> list[ImageInfo]:
        """Imported before then, and named by no job that has not ended."""
        used = {
            _plain_name(role.image)
            for snapshot in self._control.snapshots()
            for role in snapshot.job.roles
            if role.image
        }
        return [
            image
            for image in await self._engine.images()
            if image.created_at is not None and image.created_at <= before and _plain_name(image.name) not in used
        ]

    async def _ended(self, uses: Mapping[str, LogUse]) -> dict[str, JobStorage]:
        owners = await self._store.read(endings.owners, list(uses)) if uses else {}
        return {
            id: JobStorage(user, finished, uses[id].bytes, uses[id].tasks)
            for id, (user, finished) in owners.items()
            if finished is not None
        }

    async def _held(self) -> StorageItem:
        held = self.held(self._clock())
        oldest = min((task.held.since for _, task in held if task.held), default=None)
        return StorageItem(kind=StorageKind.HELD, bytes=await self.held_bytes(held), count=len(held), oldest=oldest)

    async def _images(self) -> StorageItem:
        images = [image for image in await self._engine.images() if image.size is not None]
        oldest = min((image.created_at for image in images if image.created_at), default=None)
        return StorageItem(
            kind=StorageKind.IMAGES, bytes=sum(image.size or 0 for image in images), count=len(images), oldest=oldest
        )

    async def _tasks(self) -> StorageItem:
        uses = await self._engine.measure_disk() if isinstance(self._engine, LimitsDisk) else {}
        return StorageItem(kind=StorageKind.TASKS, bytes=sum(use.bytes for use in uses.values()), count=len(uses))

    def _database(self) -> int:
        """0 where it is elsewhere."""
        return sum(path.stat().st_blocks * 512 for path in self._home.glob("holdfast.db*"))

    async def _measure(self, folder: Path) -> tuple[int, bool]:
        deadline = time.monotonic() + SCAN_TIMEOUT
        found = await self._in_thread(lambda: measure_tree(folder, deadline))
        return found, time.monotonic() < deadline

    async def _in_thread(self, work: Callable[[], T]) -> T:
        try:
            return await self._reach.run(work, DISK_TIMEOUT)
        except NotResponding:
            raise Unavailable(msg("The disk does not answer"), hint=msg("Try again later.")) from None


def _item(kind: StorageKind, jobs: Mapping[str, JobStorage]) -> StorageItem:
    return StorageItem(
        kind=kind,
        bytes=sum(job.bytes for job in jobs.values()),
        count=len(jobs),
        oldest=min((job.finished_at for job in jobs.values()), default=None),
    )


def _by_user(jobs: Mapping[StorageKind, Mapping[str, JobStorage]]) -> dict[str, dict[StorageKind, int]]:
    found: dict[str, dict[StorageKind, int]] = {}
    for kind, kept in jobs.items():
        for job in kept.values():
            sizes = found.setdefault(job.user, dict.fromkeys(jobs, 0))
            sizes[kind] += job.bytes
    return dict(sorted(found.items(), key=lambda item: -sum(item[1].values())))


def _plain_name(image: str) -> str:
    return image.removesuffix(":latest")
