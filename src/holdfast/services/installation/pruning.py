"""Prune logs, artifacts, files on hold, images and metrics to free disk space."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import partial

from holdfast.core.access import Actor
from holdfast.core.audit import AuditAction, AuditKind
from holdfast.core.errors import UserError
from holdfast.core.holds import HoldAction, HoldRequest
from holdfast.core.messages import msg
from holdfast.engines.engine_set import EngineSet
from holdfast.store.jobs import finish_times
from holdfast.store.jobs import records as job_rows
from holdfast.store.metrics.database import MetricsDatabase

from ..audit import AuditedStore, AuditEntry
from ..catalogue.images import Images
from ..control import Control
from ..jobs.artifact_retention import ArtifactCleanup
from ..permissions import require_admin
from .disk_report import PRUNABLE_KINDS, DiskReports, StorageKind

BATCH_SIZE = 200  # logs or jobs' metrics per step
CALL_TIMEOUT = 10.0  # seconds after which a call returns with `more`


@dataclass(frozen=True, slots=True, kw_only=True)
class PruneRequest:
    kinds: frozenset[StorageKind]
    images: tuple[str, ...] = ()  # names; empty with the kind images: unused ones
    older_than: timedelta = timedelta()
    dry_run: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class PrunedStorage:
    kind: StorageKind
    count: int  # jobs, tasks or images
    bytes: int  # 0 for metrics, which are not measured per job


@dataclass(frozen=True, slots=True, kw_only=True)
class PruneResult:
    items: tuple[PrunedStorage, ...]
    more: bool = False  # incomplete: call again for the rest


class Pruning:
    def __init__(
        self,
        store: AuditedStore,
        engine: EngineSet,
        control: Control,
        reports: DiskReports,
        artifacts: ArtifactCleanup,
        images: Images,
        metrics: MetricsDatabase,
        *,
        clock: Callable[[], datetime],
    ) -> None:
        self._store = store
        self._engine = engine
        self._control = control
        self.reports = reports
        self._artifacts = artifacts
        self._images = images
        self._metrics = metrics
        self._clock = clock
        self._lock = asyncio.Lock()

    async def prune_storage(self, actor: Actor, request: PruneRequest) -> PruneResult:
        """Prune storage; admins only. Each call does a bounded part of the work; repeat it while `more` is set."""
        require_admin(actor, msg("Only admins can prune stored data"))
        if not request.kinds or not request.kinds <= PRUNABLE_KINDS:
            raise UserError(
                msg("kinds must contain one or more of {kinds}", kinds=", ".join(sorted(PRUNABLE_KINDS))), field="kinds"
            )
        async with self._lock:
            before = self._clock() - request.older_than
            if request.dry_run:
                return await self._preview_prune(request, before)
            return await self._prune_kinds(actor, request, before)

    async def _preview_prune(self, request: PruneRequest, before: datetime) -> PruneResult:
        items: list[PrunedStorage] = []
        complete = True
        if StorageKind.LOGS in request.kinds:
            logs, complete = await self.reports.measure_logs()
            due = [job for job in logs.values() if job.finished_at <= before]
            tasks, size = sum(job.tasks for job in due), sum(job.bytes for job in due)
            items.append(PrunedStorage(kind=StorageKind.LOGS, count=tasks, bytes=size))
        if StorageKind.ARTIFACTS in request.kinds:
            kept = await self.reports.measure_artifacts(before)
            size = sum(job.bytes for job in kept.values())
            items.append(PrunedStorage(kind=StorageKind.ARTIFACTS, count=len(kept), bytes=size))
        if StorageKind.HELD in request.kinds:
            held = self.reports.list_files_only_holds(before)
            items.append(
                PrunedStorage(kind=StorageKind.HELD, count=len(held), bytes=await self.reports.measure_held_files(held))
            )
        if StorageKind.IMAGES in request.kinds:
            images = await self._choose_images(request, before)
            items.append(PrunedStorage(kind=StorageKind.IMAGES, count=len(images), bytes=sum(images.values())))
        if StorageKind.METRICS in request.kinds:
            count = sum([len(page) async for page in self._iter_expired_metric_jobs(before)])
            items.append(PrunedStorage(kind=StorageKind.METRICS, count=count, bytes=0))
        return PruneResult(items=tuple(items), more=not complete)

    async def _prune_kinds(self, actor: Actor, request: PruneRequest, before: datetime) -> PruneResult:
        """Prune logs first: they are fastest to delete, and other steps may fail on a full disk."""
        deadline = time.monotonic() + CALL_TIMEOUT
        items: list[PrunedStorage] = []
        more = False
        if StorageKind.LOGS in request.kinds:
            found, more = await self._prune_logs(before, deadline)
            items.append(found)
        if StorageKind.ARTIFACTS in request.kinds:
            items.append(await self._prune_artifacts(before))
        if StorageKind.HELD in request.kinds:
            items.append(await self._prune_held_tasks(actor, before))
        if StorageKind.IMAGES in request.kinds:
            items.append(await self._prune_images(actor, request, before))
        if StorageKind.METRICS in request.kinds:
            items.append(await self._prune_metrics(before))
        await self._record_prune(actor, request, items)
        return PruneResult(items=tuple(items), more=more)

    async def _prune_logs(self, before: datetime, deadline: float) -> tuple[PrunedStorage, bool]:
        """Delete files before the rows are updated: after a crash they are deleted again, harmlessly."""
        count = size = 0
        more = True
        while more and (not count or time.monotonic() < deadline):
            due = await self._store.read(job_rows.list_expired_logs, before, BATCH_SIZE)
            size += sum((await self._engine.measure_ended_tasks(due)).values())
            for attempt_id in due:
                await self._engine.remove_logs(attempt_id)
            if due:
                await self._store.write_unaudited(job_rows.mark_logs_removed, due, self._clock())
            count, more = count + len(due), len(due) == BATCH_SIZE
        return PrunedStorage(kind=StorageKind.LOGS, count=count, bytes=size), more

    async def _prune_artifacts(self, before: datetime) -> PrunedStorage:
        kept = await self.reports.measure_artifacts(before)
        count = await self._artifacts.delete_artifacts(await self._artifacts.find_expired_artifacts(before))
        return PrunedStorage(kind=StorageKind.ARTIFACTS, count=count, bytes=sum(job.bytes for job in kept.values()))

    async def _prune_held_tasks(self, actor: Actor, before: datetime) -> PrunedStorage:
        held = self.reports.list_files_only_holds(before)
        size, count = await self.reports.measure_held_files(held), 0
        for snapshot, task in held:
            why = msg("{name} deleted the files of {task} to free disk space", task=task.task, name=actor.name)
            request = HoldRequest(
                actor=actor.name, at=self._clock(), action=HoldAction.RELEASE, task=task.task, why=why
            )
            count += await self._control.request_hold_change(snapshot.id, request)
        return PrunedStorage(kind=StorageKind.HELD, count=count, bytes=size)

    async def _prune_images(self, actor: Actor, request: PruneRequest, before: datetime) -> PrunedStorage:
        chosen = await self._choose_images(request, before)
        for name in chosen:
            await self._images.remove(actor, name)
        return PrunedStorage(kind=StorageKind.IMAGES, count=len(chosen), bytes=sum(chosen.values()))

    async def _choose_images(self, request: PruneRequest, before: datetime) -> dict[str, int]:
        """Return name -> bytes of the named images, even if in use: running tasks continue. Default: unused ones."""
        if request.images:
            sizes = {image.name: image.size or 0 for image in await self._engine.list_images()}
            return {name: sizes.get(name, 0) for name in request.images}
        return {image.name: image.size or 0 for image in await self.reports.list_unused_images(before)}

    async def _prune_metrics(self, before: datetime) -> PrunedStorage:
        count = 0
        async for page in self._iter_expired_metric_jobs(before):
            await self._store.unaudited_store.retry_when_disk_full(partial(self._metrics.remove_jobs, page))
            count += len(page)
        await self._store.unaudited_store.retry_when_disk_full(self._metrics.shrink_file)
        return PrunedStorage(kind=StorageKind.METRICS, count=count, bytes=0)

    async def _iter_expired_metric_jobs(self, before: datetime) -> AsyncIterator[list[str]]:
        after = ""
        while ids := await self._metrics.run_in_thread(self._metrics.list_job_ids, after, BATCH_SIZE):
            ended = await self._store.read(finish_times.load_finish_times, ids)
            yield [id for id in ids if id not in ended or ((at := ended[id]) is not None and at <= before)]
            after = ids[-1]

    async def _record_prune(self, actor: Actor, request: PruneRequest, items: list[PrunedStorage]) -> None:
        for item in items:
            if item.count:
                detail = {"count": item.count, "bytes": item.bytes, "older than": request.older_than}
                entry = AuditEntry(actor.name, AuditKind.STORAGE, AuditAction.REMOVED, item.kind.value, detail)
                await self._store.record_entry(entry)
