"""Keeping the artifacts of ended tasks, before their end is told: whoever sees a job final sees its artifacts.

A task that left none costs nothing here. For one that did, the work is done in a thread that nothing waits for longer
than is reasonable: a disk that does not answer holds up no job's end for ever. After a kill it is done again.
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

from holdfast.core.attempt import JobSnapshot, Observation, Seen
from holdfast.core.attempt_id import AttemptId
from holdfast.core.messages import join_messages, msg
from holdfast.core.records import NewEvent
from holdfast.core.scheduling.placement import show_bytes
from holdfast.disk_space import DiskMarks
from holdfast.engines.base import ArtifactsUnavailable, Engine, KeepsArtifacts, LeftOut
from holdfast.hang_guard import HangGuard, NotResponding
from holdfast.services.fair_limiter import FairLimiter
from holdfast.shared_folders import SharedFolders

from .artifact_draft import Room, Tally
from .artifact_place import ArtifactPlace, Parcel

log = logging.getLogger(__name__)

MAX_COLLECTED = 8  # tasks at a time
MAX_COLLECTED_PER_GROUP = 4  # it may leave as much as it likes, again and again
LOOK = 10.0  # seconds for the disk to answer at all
TIMEOUT = 60.0  # seconds for one task, and more where much may be kept
BYTES_PER_SECOND = 10 << 20
FILES_PER_SECOND = 50
MAX_LENGTH = 900.0  # seconds, with the wait for its turn
_CACHE_SIZE = 1000  # jobs of several tasks whose sums are kept in mind

_FULL = (errno.ENOSPC, errno.EDQUOT)
_LIMITS = (LeftOut.TOO_MANY, LeftOut.TOO_LARGE)


@dataclass(frozen=True, slots=True, kw_only=True)
class ArtifactLimits:
    """What the admin lets a job keep."""

    files: int
    bytes: int
    keep: timedelta | None  # None: for ever

    @property
    def none(self) -> bool:
        return not self.files or not self.bytes


class Collecting:
    def __init__(
        self,
        engine: Engine,
        shared: SharedFolders,
        limits: ArtifactLimits,
        *,
        marks: DiskMarks | None = None,
        clock: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        self._engine = engine if isinstance(engine, KeepsArtifacts) and not limits.none else None
        self._root = str(shared.root)
        self._place = ArtifactPlace(shared, limits.keep, marks)
        self._limits = limits
        self._clock = clock
        self._reach = HangGuard("artifacts")
        self._limiter = FairLimiter(MAX_COLLECTED, per_key=MAX_COLLECTED_PER_GROUP)
        self._jobs: OrderedDict[str, _Job] = OrderedDict()

    def wants(self, observation: Observation) -> bool:
        return observation.artifacts and observation.seen is Seen.EXITED and self._engine is not None

    async def collect(self, snapshot: JobSnapshot, attempt_id: str) -> NewEvent | None:
        """What is to be told of it; None when there was nothing after all."""
        id = AttemptId.parse(attempt_id)
        task = None if sum(role.instances for role in snapshot.job.roles) == 1 else id.task
        text = await self._keep(Parcel(attempt_id=attempt_id, job_id=snapshot.id, group=snapshot.job.group, task=task))
        if not text:
            return None
        return NewEvent(kind="artifacts", message=text, at=self._clock(), task=task, attempt=id.attempt)

    async def _keep(self, parcel: Parcel) -> str:
        try:
            async with asyncio.timeout(MAX_LENGTH):
                await self._reach.look(self._root, Path(self._root).stat, LOOK)
                return told(await self._in_turn(parcel), self._limits)
        except ArtifactsUnavailable as problem:
            return msg("No artifacts were kept: {problem}", problem=problem)
        except (NotResponding, TimeoutError):
            return msg(
                "Artifacts were not kept: it took too long. The disk they are kept on may not answer; ask an admin."
            )
        except OSError as error:
            said = {"event": "artifacts", "attempt": parcel.attempt_id, "error": str(error)}
            log.warning("could not keep artifacts", extra=said)
            why = (
                msg("the disk of shared files is full")
                if error.errno in _FULL
                else error.strerror or msg("a disk error")
            )
            return msg("Artifacts were not kept: {why}.", why=why)
        except Exception:
            log.exception("could not keep artifacts", extra={"event": "artifacts", "attempt": parcel.attempt_id})
            return msg("Artifacts were not kept, through a fault of the platform. The server's log says more.")

    async def _in_turn(self, parcel: Parcel) -> Tally:
        """Of one job, one task after the other: they share what may be kept."""
        if parcel.task is None:
            async with self._limiter.slot(parcel.group):
                return await self._in_thread(parcel, Room(self._limits.files, self._limits.bytes))
        job = self._job(parcel.job_id)
        async with job.turn, self._limiter.slot(parcel.group):
            if job.kept is None:
                look = partial(self._place.kept_by_task, parcel, self._limits.files)
                job.kept = await self._reach.run(look, LOOK)
            others = [room for task, room in job.kept.items() if task != parcel.task]
            tally = await self._in_thread(parcel, _left_of(self._limits, others))
            if tally.files:
                job.kept[parcel.task] = Room(tally.files, tally.bytes)
            return tally

    def _job(self, job_id: str) -> _Job:
        job = self._jobs.pop(job_id, None) or _Job()
        self._jobs[job_id] = job
        while len(self._jobs) > _CACHE_SIZE and not next(iter(self._jobs.values())).turn.locked():
            self._jobs.popitem(last=False)
        return job

    async def _in_thread(self, parcel: Parcel, room: Room) -> Tally:
        engine, stop = self._engine, threading.Event()
        assert engine is not None
        patience = TIMEOUT + room.bytes / BYTES_PER_SECOND + room.files / FILES_PER_SECOND
        try:
            return await self._reach.run(
                lambda: self._place.keep(engine, parcel, room, self._clock(), stop), min(patience, MAX_LENGTH)
            )
        finally:
            stop.set()  # one that is still at it must not put things in their place any more


class _Job:
    """One of several tasks."""

    def __init__(self) -> None:
        self.turn = asyncio.Lock()
        self.kept: dict[str, Room] | None = None  # by task; None: not looked at yet


def _left_of(limits: ArtifactLimits, kept: list[Room]) -> Room:
    files = limits.files - sum(room.files for room in kept)
    size = limits.bytes - sum(room.bytes for room in kept)
    return Room(max(0, files), max(0, size))


def told(tally: Tally, limits: ArtifactLimits) -> str:
    """What is said of it in the job's events; empty when there was nothing at all."""
    if not tally.files and not tally.left and not tally.more:
        return ""
    files = (
        "1 file" if tally.files == 1 else msg("{files} files", files=tally.files) if tally.files else msg("No files")
    )
    parts = [
        msg("{files} ({bytes}) kept as artifacts", files=files, bytes=show_bytes(tally.bytes))
        if tally.files
        else msg("No artifacts were kept")
    ]
    if tally.left:
        reasons = join_messages(
            ", ", (msg("{count} ({why})", count=count, why=why) for why, count in sorted(tally.left.items()))
        )
        size = msg(", {left_bytes} in all", left_bytes=show_bytes(tally.left_bytes)) if tally.left_bytes else ""
        parts.append(
            msg("left out{size}: {reasons}, such as {named}", size=size, reasons=reasons, named=", ".join(tally.named))
        )
    if tally.more:
        parts.append(msg("there was more that was not looked at"))
    if any(tally.left[why] for why in _LIMITS) or tally.more:
        most = msg(
            "at most {files} files and {bytes} are kept of a job", files=limits.files, bytes=show_bytes(limits.bytes)
        )
        parts.append(msg("{most}; an admin can raise files.artifact_files and files.artifact_bytes", most=most))
    parts += [msg("what was in their place is now {path} of the shared files", path=path) for path in tally.moved]
    return join_messages("; ", parts) + "."
