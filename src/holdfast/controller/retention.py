"""Removing logs, artifacts and figures some days after a job's end, and audit events when they are old. A job's record
stays, and says when its logs went."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from datetime import UTC, datetime, timedelta

from holdfast.engines.base import Engine
from holdfast.services.audit import Audit
from holdfast.services.control import Control
from holdfast.services.jobs.artifact_retention import ArtifactSweep
from holdfast.services.people.tokens import Tokens
from holdfast.store.database import Store
from holdfast.store.jobs import records as job_rows
from holdfast.store.metrics.series_files import SHARDS, SeriesFiles

log = logging.getLogger(__name__)

INTERVAL = 600.0  # seconds
ARTIFACTS_INTERVAL = 3600.0
AUDIT_INTERVAL = 3600.0
FIGURES_INTERVAL = 300.0  # for one of the SHARDS parts: each has its turn once a day
BATCH = 200


class Retention:
    def __init__(
        self,
        store: Store,
        engine: Engine,
        keep: timedelta | None,
        *,
        clock: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        self.store = store
        self.engine = engine
        self.keep = keep  # None: for ever
        self.clock = clock

    async def run(self) -> None:
        """Until cancelled."""
        while self.keep is not None:
            try:
                await self.sweep()
            except Exception:
                log.exception("could not remove old logs", extra={"event": "retention"})
            await asyncio.sleep(INTERVAL)

    async def sweep(self) -> int:
        """Remove what is due. Files go first: a crash in between removes them again, harmlessly."""
        removed = 0
        while self.keep is not None:
            due = await self.store.read(job_rows.logs_due, self.clock() - self.keep, BATCH)
            for attempt_id in due:
                await self.engine.remove_logs(attempt_id)
            if due:
                await self.store.write(job_rows.mark_logs_removed, due, self.clock())
            removed += len(due)
            if len(due) < BATCH:
                break
        return removed


class ArtifactRetention:
    def __init__(self, artifacts: ArtifactSweep) -> None:
        self.artifacts = artifacts

    async def run(self) -> None:
        """Until cancelled."""
        while True:
            try:
                await self.artifacts.run()
            except Exception:
                log.exception("could not remove old artifacts", extra={"event": "retention"})
            await asyncio.sleep(ARTIFACTS_INTERVAL)


class AuditRetention:
    """And tokens that ended."""

    def __init__(self, audit: Audit, tokens: Tokens) -> None:
        self.audit = audit
        self.tokens = tokens

    async def run(self) -> None:
        """Until cancelled."""
        while True:
            try:
                await self.audit.sweep()
                await self.tokens.sweep()
            except Exception:
                log.exception("could not remove old audit events and tokens", extra={"event": "retention"})
            await asyncio.sleep(AUDIT_INTERVAL)


class MetricsRetention:
    """And figures of jobs that nobody knows."""

    def __init__(
        self,
        store: Store,
        files: SeriesFiles,
        control: Control,
        keep: timedelta | None,
        *,
        clock: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        self.store = store
        self.files = files
        self.control = control
        self.keep = keep  # None: for ever
        self.clock = clock

    async def run(self) -> None:
        """Until cancelled."""
        part = 0
        while True:
            try:
                await self.sweep(part)
            except Exception:
                log.exception("could not remove old figures", extra={"event": "retention"})
            part = (part + 1) % SHARDS
            await asyncio.sleep(FIGURES_INTERVAL)

    async def sweep(self, part: int) -> None:
        """Of one part of all jobs, what is due."""
        ids = await self.files.ask(self.files.shard, part)
        for start in range(0, len(ids), BATCH):
            await self._sweep(ids[start : start + BATCH])

    async def _sweep(self, ids: list[str]) -> None:
        known = await self.store.read(job_rows.known, ids)
        for job_id in ids:
            if job_id not in known:
                await self.files.ask(self.files.remove_job, job_id)
            elif self.keep is not None and self.control.active(job_id) is None:
                before = (self.clock() - self.keep).timestamp()
                await self.files.ask(self.files.remove_old, job_id, before)
