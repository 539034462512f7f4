"""Collects the artifacts of ended tasks before their end is reported, so that a final job has its artifacts.

A task without artifacts costs nothing. Otherwise a thread collects them, with a timeout: a disk that does not respond
cannot block the end of a job. After a crash it is repeated.
"""

from __future__ import annotations

import asyncio
import errno
import logging
import threading
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path

from holdfast.core.attempt import JobSnapshot, Observation, ObservedState
from holdfast.core.attempt_id import AttemptId
from holdfast.core.messages import join_messages, msg
from holdfast.core.records import ARTIFACTS_INCOMPLETE_EVENT, ARTIFACTS_SAVED_EVENT, NewEvent
from holdfast.core.scheduling.placement import format_bytes
from holdfast.disk_space import DiskThresholds
from holdfast.engines.artifacts import ArtifactsUnavailable, SkipReason, SupportsArtifacts
from holdfast.engines.base import Engine
from holdfast.hang_guard import HangGuard, NotResponding
from holdfast.services.fair_limiter import FairLimiter
from holdfast.shared_folders import SharedFolders

from .artifact_draft import ArtifactAmount, CollectionResult
from .artifact_store import ArtifactSource, ArtifactStore

log = logging.getLogger(__name__)

MAX_CONCURRENT_COLLECTIONS = 8  # tasks at a time
MAX_CONCURRENT_COLLECTIONS_PER_GROUP = 4  # a group can produce any number of artifacts
DISK_TIMEOUT = 10.0  # seconds for the disk to respond
COLLECT_TIMEOUT = 60.0  # seconds for one task, plus time for its size
BYTES_PER_SECOND = 10 << 20
FILES_PER_SECOND = 50
MAX_COLLECT_TIMEOUT = 900.0  # seconds, including the wait for a slot
_CACHE_SIZE = 1000  # jobs with several tasks whose totals are cached

_DISK_FULL_ERRORS = (errno.ENOSPC, errno.EDQUOT)
_LIMIT_REASONS = (SkipReason.TOO_MANY, SkipReason.TOO_LARGE)


@dataclass(frozen=True, slots=True, kw_only=True)
class ArtifactLimits:
    """Limits of a job's artifacts, set by the admin."""

    files: int
    bytes: int
    keep: timedelta | None  # None: unlimited

    @property
    def is_zero(self) -> bool:
        return not self.files or not self.bytes


class ArtifactCollector:
    def __init__(
        self,
        engine: Engine,
        shared: SharedFolders,
        limits: ArtifactLimits,
        *,
        marks: DiskThresholds | None = None,
        clock: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        self._engine = engine if isinstance(engine, SupportsArtifacts) and not limits.is_zero else None
        self._root = str(shared.root)
        self._store = ArtifactStore(shared, limits.keep, marks)
        self._limits = limits
        self._clock = clock
        self._hang_guard = HangGuard("artifacts")
        self._limiter = FairLimiter(MAX_CONCURRENT_COLLECTIONS, per_key=MAX_CONCURRENT_COLLECTIONS_PER_GROUP)
        self._jobs: OrderedDict[str, _JobCollection] = OrderedDict()

    def should_collect(self, observation: Observation) -> bool:
        return observation.artifacts and observation.seen is ObservedState.EXITED and self._engine is not None

    async def collect_artifacts(self, snapshot: JobSnapshot, attempt_id: str) -> NewEvent | None:
        """Collect artifacts and return the event; None if there were none."""
        id = AttemptId.parse(attempt_id)
        task = None if sum(role.instances for role in snapshot.job.roles) == 1 else id.task
        text, complete = await self._try_save_artifacts(
            ArtifactSource(attempt_id=attempt_id, job_id=snapshot.id, group=snapshot.job.group, task=task)
        )
        if not text:
            return None
        kind = ARTIFACTS_SAVED_EVENT if complete else ARTIFACTS_INCOMPLETE_EVENT
        return NewEvent(kind=kind, message=text, at=self._clock(), task=task, attempt=id.attempt)

    async def _try_save_artifacts(self, parcel: ArtifactSource) -> tuple[str, bool]:
        """Return what happened, and whether every file was saved."""
        try:
            async with asyncio.timeout(MAX_COLLECT_TIMEOUT):
                await self._hang_guard.run_once_per_path(self._root, Path(self._root).stat, DISK_TIMEOUT)
                tally = await self._save_within_job_limits(parcel)
                return describe_result(tally, self._limits), not tally.skipped and not tally.more and not tally.moved
        except ArtifactsUnavailable as problem:
            return msg("No artifacts were saved: {problem}", problem=problem), False
        except (NotResponding, TimeoutError):
            text = msg(
                "Artifacts were not saved: the operation timed out. The disk may not be responding; ask an admin."
            )
            return text, False
        except OSError as error:
            details = {"event": "artifacts", "attempt": parcel.attempt_id, "error": str(error)}
            log.warning("could not save artifacts", extra=details)
            why = (
                msg("the disk for shared files is full")
                if error.errno in _DISK_FULL_ERRORS
                else error.strerror or msg("disk error")
            )
            return msg("Artifacts were not saved: {why}.", why=why), False
        except Exception:
            log.exception("could not save artifacts", extra={"event": "artifacts", "attempt": parcel.attempt_id})
            return msg("Artifacts were not saved: internal error. See the server's log."), False

    async def _save_within_job_limits(self, parcel: ArtifactSource) -> CollectionResult:
        """Save one task of a job after the other, since they share the limits."""
        if parcel.task is None:
            async with self._limiter.use_slot(parcel.group):
                return await self._save_in_thread(parcel, ArtifactAmount(self._limits.files, self._limits.bytes))
        job = self._get_job_collection(parcel.job_id)
        async with job.lock, self._limiter.use_slot(parcel.group):
            if job.saved_by_task is None:
                look = partial(self._store.count_files_by_task, parcel, self._limits.files)
                job.saved_by_task = await self._hang_guard.run_with_timeout(look, DISK_TIMEOUT)
            others = [room for task, room in job.saved_by_task.items() if task != parcel.task]
            tally = await self._save_in_thread(parcel, _compute_remaining_amount(self._limits, others))
            if tally.files:
                job.saved_by_task[parcel.task] = ArtifactAmount(tally.files, tally.bytes)
            return tally

    def _get_job_collection(self, job_id: str) -> _JobCollection:
        job = self._jobs.pop(job_id, None) or _JobCollection()
        self._jobs[job_id] = job
        while len(self._jobs) > _CACHE_SIZE and not next(iter(self._jobs.values())).lock.locked():
            self._jobs.popitem(last=False)
        return job

    async def _save_in_thread(self, parcel: ArtifactSource, room: ArtifactAmount) -> CollectionResult:
        engine, stop = self._engine, threading.Event()
        assert engine is not None
        timeout = COLLECT_TIMEOUT + room.bytes / BYTES_PER_SECOND + room.files / FILES_PER_SECOND
        try:
            return await self._hang_guard.run_with_timeout(
                lambda: self._store.save_artifacts(engine, parcel, room, self._clock(), stop),
                min(timeout, MAX_COLLECT_TIMEOUT),
            )
        finally:
            stop.set()  # a thread that still runs must not move files into place


class _JobCollection:
    """A job with several tasks."""

    def __init__(self) -> None:
        self.lock = asyncio.Lock()
        self.saved_by_task: dict[str, ArtifactAmount] | None = None  # None: not counted yet


def _compute_remaining_amount(limits: ArtifactLimits, kept: list[ArtifactAmount]) -> ArtifactAmount:
    files = limits.files - sum(room.files for room in kept)
    size = limits.bytes - sum(room.bytes for room in kept)
    return ArtifactAmount(max(0, files), max(0, size))


def describe_result(tally: CollectionResult, limits: ArtifactLimits) -> str:
    """Describe the result for the job's events; empty if there were no artifacts."""
    if not tally.files and not tally.skipped and not tally.more:
        return ""
    files = (
        msg("1 file")
        if tally.files == 1
        else msg("{files} files", files=tally.files)
        if tally.files
        else msg("No files")
    )
    parts = [
        msg("{files} ({bytes}) saved as artifacts", files=files, bytes=format_bytes(tally.bytes))
        if tally.files
        else msg("No artifacts were saved")
    ]
    if tally.skipped:
        reasons = join_messages(
            ", ", (msg("{count} ({why})", count=count, why=why) for why, count in sorted(tally.skipped.items()))
        )
        size = (
            msg(", {left_bytes} in total", left_bytes=format_bytes(tally.skipped_bytes)) if tally.skipped_bytes else ""
        )
        parts.append(
            msg(
                "skipped{size}: {reasons}, for example {named}",
                size=size,
                reasons=reasons,
                named=", ".join(tally.skipped_names),
            )
        )
    if tally.more:
        parts.append(msg("more files were not checked"))
    if any(tally.skipped[why] for why in _LIMIT_REASONS) or tally.more:
        most = msg(
            "a job can save at most {files} files and {bytes}", files=limits.files, bytes=format_bytes(limits.bytes)
        )
        parts.append(msg("{limit}; an admin can raise files.artifact_files and files.artifact_bytes", limit=most))
    parts += [
        msg("existing files at this path were moved to {path} in the shared files", path=path) for path in tally.moved
    ]
    return join_messages("; ", parts) + "."
