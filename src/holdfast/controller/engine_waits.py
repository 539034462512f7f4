"""Explains why placed tasks wait in the queue of their engine."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from dataclasses import replace

from holdfast.core.attempt_id import parse_job_id
from holdfast.core.messages import msg
from holdfast.core.scheduling.blockers import (
    ActiveJobLookup,
    Blocker,
    BlockerKind,
    Estimate,
    ResourceHolder,
    WaitExplanation,
)
from holdfast.core.scheduling.placement import ResourceAmount
from holdfast.core.scheduling.waits import MAX_LISTED_HOLDERS
from holdfast.core.states import TaskState
from holdfast.engines.engine_set import EngineSet
from holdfast.engines.queue_waits import QueueHolder, QueueWait

from .live_jobs import LiveJobs

_ESTIMATE_BASIS = msg("The estimate of the engine's own queue, from the time limits of the jobs there.")
_NO_ESTIMATE_BASIS = msg("The engine's own queue gives no estimate yet.")


async def explain_engine_wait(
    job_id: str,
    live: LiveJobs,
    engine: EngineSet,
    find_job: ActiveJobLookup,
    sees: Callable[[str], bool],
    timeout: float,
) -> WaitExplanation | None:
    """Explain the wait of a job whose tasks are queued by their engine; None if none is, or it is not known in time.
    `sees`: whether the reader can see jobs of a group."""
    known = live.get(job_id)
    if known is None or known.snapshot.stop is not None:
        return None
    snapshot = known.snapshot
    queued = [snapshot.build_attempt_id(task) for task in snapshot.tasks if task.state is TaskState.PREPARING]
    if not queued:
        return None
    try:
        async with asyncio.timeout(timeout):
            wait = await engine.explain_queue_wait(queued)
    except TimeoutError:
        return None
    if wait is None:
        return None
    holders = _build_holders(wait.holders, snapshot.tasks[0].engine or engine.name, find_job, sees)
    listed = tuple(holders[:MAX_LISTED_HOLDERS])
    blocker = Blocker(kind=wait.kind, text=wait.text, holders=listed, more_holders=len(holders) - len(listed))
    return WaitExplanation(blockers=(blocker,), estimate=_build_estimate(wait))


def _build_estimate(wait: QueueWait) -> Estimate | None:
    if wait.kind is not BlockerKind.ENGINE_WAIT:
        return None
    return Estimate(at=wait.start_at, basis=_ESTIMATE_BASIS if wait.start_at else _NO_ESTIMATE_BASIS)


def _build_holders(
    holders: Iterable[QueueHolder], engine: str, find_job: ActiveJobLookup, sees: Callable[[str], bool]
) -> list[ResourceHolder]:
    """Return the jobs of this server, and the users of the other jobs, largest first."""
    own: dict[str, ResourceHolder] = {}
    others = []
    for each in holders:
        if each.attempt_id:
            job_id = parse_job_id(each.attempt_id)
            known = own.get(job_id) or _build_own_holder(job_id, find_job, sees)
            own[job_id] = replace(known, has=known.has.plus(each.has), until=each.until)
        else:
            has, until, count = each.has, each.until, each.job_count
            others.append(
                ResourceHolder(
                    job_id="", name="", user=each.user, group="", has=has, until=until, outside=engine, job_count=count
                )
            )
    return sorted((*own.values(), *others), key=lambda each: (each.has.gpu, each.has.cpu), reverse=True)


def _build_own_holder(job_id: str, find_job: ActiveJobLookup, sees: Callable[[str], bool]) -> ResourceHolder:
    known = find_job(job_id)
    if known is None or not sees(known.group):
        return ResourceHolder(job_id="", name="", user="", group="", has=ResourceAmount())
    return ResourceHolder(
        job_id=job_id,
        name=known.name,
        user=known.user,
        group=known.group,
        has=ResourceAmount(),
        since=known.since,
        held=known.held,
    )
