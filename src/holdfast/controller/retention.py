"""Deletes logs, artifacts and metrics some days after a job's end, and old audit entries. The job's record stays."""

from __future__ import annotations

import asyncio
import logging
import shutil
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path

from holdfast.core.attempt_id import parse_job_id
from holdfast.engines.base import Engine
from holdfast.services.audit import AuditLog
from holdfast.services.control import Control
from holdfast.services.jobs.artifact_retention import ArtifactCleanup
from holdfast.services.people.tokens import Tokens
from holdfast.store.database import Store
from holdfast.store.jobs import records as job_rows
from holdfast.store.metrics.database import EndedTask, MetricsDatabase

log = logging.getLogger(__name__)

LOG_SWEEP_INTERVAL = 600.0  # seconds
ARTIFACT_SWEEP_INTERVAL = 3600.0  # seconds
AUDIT_SWEEP_INTERVAL = 3600.0  # seconds
METRICS_SWEEP_INTERVAL = 300.0  # seconds
MAX_UNUSED_METRICS_SHARE = 0.5  # share of the metrics database that may be unused
BATCH_SIZE = 200


class LogRetention:
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
        self.keep = keep  # None: unlimited
        self.clock = clock

    async def run(self) -> None:
        while self.keep is not None:
            try:
                await self.delete_expired_logs()
            except Exception:
                log.exception("could not remove old logs", extra={"event": "retention"})
            await asyncio.sleep(LOG_SWEEP_INTERVAL)

    async def delete_expired_logs(self) -> int:
        """Delete due logs. Files first: after a crash in between, they are deleted again without harm."""
        removed = 0
        while self.keep is not None:
            due = await self.store.read(job_rows.list_expired_logs, self.clock() - self.keep, BATCH_SIZE)
            for attempt_id in due:
                await self.engine.remove_logs(attempt_id)
            if due:
                await self.store.write(job_rows.mark_logs_removed, due, self.clock())
            removed += len(due)
            if len(due) < BATCH_SIZE:
                break
        return removed


class ArtifactRetention:
    def __init__(self, artifacts: ArtifactCleanup) -> None:
        self.artifacts = artifacts

    async def run(self) -> None:
        while True:
            try:
                await self.artifacts.run()
            except Exception:
                log.exception("could not remove old artifacts", extra={"event": "retention"})
            await asyncio.sleep(ARTIFACT_SWEEP_INTERVAL)


class AuditRetention:
    """Deletes old audit entries and expired tokens."""

    def __init__(self, audit: AuditLog, tokens: Tokens) -> None:
        self.audit = audit
        self.tokens = tokens

    async def run(self) -> None:
        while True:
            try:
                await self.audit.delete_expired()
                await self.tokens.delete_expired_tokens()
            except Exception:
                log.exception("could not remove old audit entries and tokens", extra={"event": "retention"})
            await asyncio.sleep(AUDIT_SWEEP_INTERVAL)


class MetricsRetention:
    """Also deletes metrics of jobs that are not in the database."""

    def __init__(
        self,
        store: Store,
        database: MetricsDatabase,
        control: Control,
        keep: timedelta | None,
        *,
        clock: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        self.store = store
        self.database = database
        self.control = control
        self.keep = keep  # None: unlimited
        self.clock = clock
        self._last_checked_job = ""

    async def run(self) -> None:
        await asyncio.to_thread(_delete_legacy_metrics, self.database.path.with_name("metrics"))
        while True:
            try:
                await self.delete_expired_metrics()
            except Exception:
                log.exception("could not remove old metrics", extra={"event": "retention"})
            await asyncio.sleep(METRICS_SWEEP_INTERVAL)

    async def delete_expired_metrics(self) -> None:
        """Delete due metrics, and check the next jobs."""
        before = None if self.keep is None else (self.clock() - self.keep).timestamp()
        if before is not None:
            await self._delete_expired_tasks(before)
        await self._delete_stale_jobs(before)
        await self.database.shrink_file(MAX_UNUSED_METRICS_SHARE)

    async def _delete_expired_tasks(self, before: float) -> None:
        """Delete expired metrics, except of active jobs."""
        last: EndedTask | None = None
        while page := await self.database.run_in_thread(self.database.list_ended_tasks, last, before, BATCH_SIZE):
            due = [task.id for task in page if self.control.get_active_job(parse_job_id(task.attempt_id)) is None]
            await self.database.remove_tasks(due)
            last = page[-1]

    async def _delete_stale_jobs(self, before: float | None) -> None:
        """Check some jobs each time, to bound the work: unknown jobs, and tasks whose end was missed."""
        ids = await self.database.run_in_thread(self.database.list_job_ids, self._last_checked_job, BATCH_SIZE)
        self._last_checked_job = ids[-1] if len(ids) == BATCH_SIZE else ""
        known = await self.store.read(job_rows.filter_existing_jobs, ids) if ids else set()
        await self.database.remove_jobs([id for id in ids if id not in known])
        if before is not None:
            ended = [id for id in ids if id in known and self.control.get_active_job(id) is None]
            await self.database.remove_jobs(ended, updated_before=before)


def _delete_legacy_metrics(folder: Path) -> None:
    if folder.is_dir():
        log.info("removing metrics of an earlier version", extra={"event": "metrics", "folder": str(folder)})
        shutil.rmtree(folder, ignore_errors=True)
