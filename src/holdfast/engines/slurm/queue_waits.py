"""Explains why a task waits in Slurm, and who has what it needs. Only on request: it costs commands."""

from __future__ import annotations

import asyncio
from collections.abc import Collection
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime

from holdfast.core.messages import join_messages, msg
from holdfast.core.scheduling.blockers import BlockerKind
from holdfast.engines.queue_waits import QueueHolder, QueueWait

from .commands import SlurmCommands, SlurmUnavailable
from .jobs import QueuedJob
from .names import JobNames
from .observer import SlurmObserver
from .queue_watch import QueueWatch
from .reasons import (
    WaitClass,
    classify_reason,
    describe_reason,
    find_unavailable_nodes,
    needs_resources,
    round_estimate,
)
from .running_jobs import RunningJob, list_holders

_CACHE_TIME = 10.0  # seconds that the running jobs and the nodes of partitions are remembered
_KINDS = {
    WaitClass.WAIT: BlockerKind.ENGINE_WAIT,
    WaitClass.NEVER: BlockerKind.IMPOSSIBLE,
    WaitClass.ACT: BlockerKind.ENGINE_ACTION,
}


class QueueWaits:
    def __init__(self, names: JobNames, commands: SlurmCommands, queue: QueueWatch, observer: SlurmObserver) -> None:
        self._names = names
        self._commands = commands
        self._queue = queue
        self._observer = observer
        self._lock = asyncio.Lock()  # one command for all who ask
        self._jobs: tuple[float, list[RunningJob]] | None = None
        self._nodes: dict[str, tuple[float, frozenset[str]]] = {}

    async def explain_wait(self, attempt_ids: Collection[str]) -> QueueWait | None:
        """Explain the wait of the first that is pending, as of the last look at the queue that knows it."""
        found = [each for each in await self._observer.read_facts(attempt_ids) if each.allocation is None]
        jobs = self._queue.last_jobs
        if any(self._names.make_name(facts.leader) not in jobs for facts in found):  # submitted since
            with suppress(SlurmUnavailable):
                jobs = await self._queue.look()
        for facts in found:
            job = self._observer.find_waiting_job(facts, jobs)
            if job is not None and facts.end is None:
                return await self._explain_job(job)
        return None

    async def _explain_job(self, job: QueuedJob) -> QueueWait:
        holders: tuple[QueueHolder, ...] = ()
        if needs_resources(job.reason):
            with suppress(SlurmUnavailable):  # the reason is known all the same
                holders = await self._list_holders(job.partition)
        return QueueWait(
            kind=_KINDS[classify_reason(job.reason)],
            text=_describe_with_nodes(job.reason),
            start_at=round_estimate(job.start_at, datetime.now(UTC)) if job.start_at else None,
            holders=holders,
        )

    async def _list_holders(self, partition: str) -> tuple[QueueHolder, ...]:
        async with self._lock:
            now = asyncio.get_running_loop().time()
            if self._jobs is None or now - self._jobs[0] > _CACHE_TIME:
                self._jobs = (now, await self._commands.list_running_jobs(datetime.now(UTC)))
            known = self._nodes.get(partition)
            if known is None or now - known[0] > _CACHE_TIME:
                known = self._nodes[partition] = (now, await self._commands.list_nodes(partition))
            jobs = self._jobs[1]
        named = [job for job in jobs if self._has_own_name(job)]
        users = await self._observer.read_users({job.comment for job in named})
        own = {job.name: job.comment for job in named if job.user == users.get(job.comment)}
        # Other users can give their jobs the names of tasks.
        shown = [job if job.user == users.get(job.comment) else replace(job, name="") for job in jobs]
        return list_holders(shown, known[1], own)

    def _has_own_name(self, job: RunningJob) -> bool:
        return bool(job.comment) and self._names.make_name(job.comment) == job.name


def _describe_with_nodes(reason: str) -> str:
    """Return the reason in words. Its nodes are not in the message of the job: they may change all the time."""
    nodes = find_unavailable_nodes(reason)
    text = describe_reason(reason)
    return join_messages(" ", (text, msg("Nodes: {nodes}.", nodes=nodes))) if nodes else text
