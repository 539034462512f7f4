"""Freeing room on the server's disk by hand: logs, artifacts, held files, images and metrics that are not needed."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta

from holdfast.core.access import Actor, Verb, may
from holdfast.core.audit import Act, AuditKind
from holdfast.core.errors import Forbidden, UserError
from holdfast.core.holds import Ask, HoldRequest
from holdfast.core.messages import msg
from holdfast.engines.base import Engine, LimitsDisk
from holdfast.store.jobs import endings
from holdfast.store.jobs import records as job_rows
from holdfast.store.metrics.series_files import SHARDS, SeriesFiles

from ..audit import AuditedStore, AuditEntry
from ..catalogue.images import Images
from ..control import Control
from ..jobs.artifact_retention import ArtifactSweep
from .disk_report import PRUNABLE, DiskReports, StorageKind

BATCH = 200  # logs removed at one time
CALL_TIMEOUT = 10.0  # seconds after which a call ends and says that there is more


@dataclass(frozen=True, slots=True, kw_only=True)
class PruneRequest:
    kinds: frozenset[StorageKind]
    images: tuple[str, ...] = ()  # by name; with the kind images and none named: those that no job uses
    older_than: timedelta = timedelta()
    dry_run: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Pruned:
    kind: StorageKind
    count: int  # jobs, tasks or images
    bytes: int  # 0 for metrics: they are not measured one by one


@dataclass(frozen=True, slots=True, kw_only=True)
class PruneResult:
    items: tuple[Pruned, ...]
    more: bool = False  # it was interrupted: ask again for the rest


class Pruning:
    def __init__(
        self,
        store: AuditedStore,
        engine: Engine,
        control: Control,
        reports: DiskReports,
        artifacts: ArtifactSweep,
        images: Images,
        metrics: SeriesFiles,
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
        self._turn = asyncio.Lock()

    async def prune(self, actor: Actor, request: PruneRequest) -> PruneResult:
        """For admins. Each call does a bounded part of the work; with `more`, the same call goes on with it."""
        if not may(actor, Verb.MANAGE_PLACE):
            raise Forbidden(msg("Only admins prune what is kept"))
        if not request.kinds or not request.kinds <= PRUNABLE:
            raise UserError(
                msg("kinds must name some of {prunable}", prunable=", ".join(sorted(PRUNABLE))), field="kinds"
            )
        async with self._turn:
            before = self._clock() - request.older_than
            if request.dry_run:
                return await self._preview(request, before)
            return await self._prune(actor, request, before)

    async def _preview(self, request: PruneRequest, before: datetime) -> PruneResult:
        items: list[Pruned] = []
        complete = True
        if StorageKind.LOGS in request.kinds:
            logs, complete = await self.reports.logs()
            due = [job for job in logs.values() if job.finished_at <= before]
            tasks, size = sum(job.tasks for job in due), sum(job.bytes for job in due)
            items.append(Pruned(kind=StorageKind.LOGS, count=tasks, bytes=size))
        if StorageKind.ARTIFACTS in request.kinds:
            kept = await self.reports.artifacts(before)
            size = sum(job.bytes for job in kept.values())
            items.append(Pruned(kind=StorageKind.ARTIFACTS, count=len(kept), bytes=size))
        if StorageKind.HELD in request.kinds:
            held = self.reports.held(before)
            items.append(Pruned(kind=StorageKind.HELD, count=len(held), bytes=await self.reports.held_bytes(held)))
        if StorageKind.IMAGES in request.kinds:
            images = await self._chosen_images(request, before)
            items.append(Pruned(kind=StorageKind.IMAGES, count=len(images), bytes=sum(images.values())))
        if StorageKind.METRICS in request.kinds:
            found = [id for part in range(SHARDS) for id in await self._old_metrics(part, before)]
            items.append(Pruned(kind=StorageKind.METRICS, count=len(found), bytes=0))
        return PruneResult(items=tuple(items), more=not complete)

    async def _prune(self, actor: Actor, request: PruneRequest, before: datetime) -> PruneResult:
        """Logs first: they are the quickest to go, and a full disk may have no room for anything else."""
        deadline = time.monotonic() + CALL_TIMEOUT
        items: list[Pruned] = []
        more = False
        if StorageKind.LOGS in request.kinds:
            found, more = await self._prune_logs(before, deadline)
            items.append(found)
        if StorageKind.ARTIFACTS in request.kinds:
            items.append(await self._prune_artifacts(before))
        if StorageKind.HELD in request.kinds:
            items.append(await self._prune_held(actor, before))
        if StorageKind.IMAGES in request.kinds:
            items.append(await self._prune_images(actor, request, before))
        if StorageKind.METRICS in request.kinds:
            items.append(await self._prune_metrics(before))
        await self._note(actor, request, items)
        return PruneResult(items=tuple(items), more=more)

    async def _prune_logs(self, before: datetime, deadline: float) -> tuple[Pruned, bool]:
        """Files go first: a crash in between removes them again, harmlessly."""
        count = size = 0
        more = True
        while more and (not count or time.monotonic() < deadline):
            due = await self._store.read(job_rows.logs_due, before, BATCH)
            if isinstance(self._engine, LimitsDisk):
                size += sum((await self._engine.measure_ended(due)).values())
            for attempt_id in due:
                await self._engine.remove_logs(attempt_id)
            if due:
                await self._store.write_quietly(job_rows.mark_logs_removed, due, self._clock())
            count, more = count + len(due), len(due) == BATCH
        return Pruned(kind=StorageKind.LOGS, count=count, bytes=size), more

    async def _prune_artifacts(self, before: datetime) -> Pruned:
        kept = await self.reports.artifacts(before)
        count = await self._artifacts.remove(await self._artifacts.find_due(before))
        return Pruned(kind=StorageKind.ARTIFACTS, count=count, bytes=sum(job.bytes for job in kept.values()))

    async def _prune_held(self, actor: Actor, before: datetime) -> Pruned:
        held = self.reports.held(before)
        size, count = await self.reports.held_bytes(held), 0
        for snapshot, task in held:
            why = msg(
                "The files of {task} were removed by {name} to make room on the disk", task=task.task, name=actor.name
            )
            request = HoldRequest(actor=actor.name, at=self._clock(), ask=Ask.RELEASE, task=task.task, why=why)
            count += await self._control.ask_hold(snapshot.id, request)
        return Pruned(kind=StorageKind.HELD, count=count, bytes=size)

    async def _prune_images(self, actor: Actor, request: PruneRequest, before: datetime) -> Pruned:
        chosen = await self._chosen_images(request, before)
        for name in chosen:
            await self._images.remove(actor, name)
        return Pruned(kind=StorageKind.IMAGES, count=len(chosen), bytes=sum(chosen.values()))

    async def _chosen_images(self, request: PruneRequest, before: datetime) -> dict[str, int]:
        """Name -> bytes. Those that are named, whether they are used or not: what runs on one runs on."""
        if request.images:
            sizes = {image.name: image.size or 0 for image in await self._engine.images()}
            return {name: sizes.get(name, 0) for name in request.images}
        return {image.name: image.size or 0 for image in await self.reports.unused_images(before)}

    async def _prune_metrics(self, before: datetime) -> Pruned:
        count = 0
        for part in range(SHARDS):
            for job_id in await self._old_metrics(part, before):
                await self._metrics.ask(self._metrics.remove_job, job_id)
                count += 1
        return Pruned(kind=StorageKind.METRICS, count=count, bytes=0)

    async def _old_metrics(self, part: int, before: datetime) -> list[str]:
        ids = await self._metrics.ask(self._metrics.shard, part)
        ended = await self._store.read(endings.finished_at, ids) if ids else {}
        return [id for id in ids if id not in ended or ((at := ended[id]) is not None and at <= before)]

    async def _note(self, actor: Actor, request: PruneRequest, items: list[Pruned]) -> None:
        for item in items:
            if item.count:
                detail = {"count": item.count, "bytes": item.bytes, "older than": request.older_than}
                deed = AuditEntry(
                    actor=actor.name, kind=AuditKind.STORAGE, act=Act.REMOVED, subject=item.kind.value, detail=detail
                )
                await self._store.note(deed)
