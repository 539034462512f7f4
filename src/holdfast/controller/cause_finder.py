"""Adds the cause of a failure from the task's log to an observation.

Only for jobs whose file format retries by cause. It depends only on the log, which an ended task keeps, so a server
that crashes before the cause is saved finds it again.
"""

from __future__ import annotations

import asyncio
import logging
from dataclasses import replace

from holdfast.core.attempt import JobSnapshot, Observation, ObservedState
from holdfast.core.exits.table import can_have_cause, find_cause
from holdfast.engines.base import Engine, LogSource, LogStream

log = logging.getLogger(__name__)

TAIL_SIZE = 64 * 1024  # bytes of the log that are searched
MAX_CONCURRENT_SEARCHES = 4
DIAGNOSIS_TIMEOUT = 10.0  # seconds for one log; after that it is left undiagnosed


def should_diagnose(snapshot: JobSnapshot, observation: Observation) -> bool:
    """Whether it failed by itself; after a stop or an outcome, that is its cause."""
    return (
        observation.seen in (ObservedState.EXITED, ObservedState.HELD)
        and snapshot.job.dialect.is_openpai
        and can_have_cause(observation.code or 0)
        and not (observation.oom or observation.cause or snapshot.stop or snapshot.outcome)
    )


class CauseFinder:
    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._slots = asyncio.Semaphore(MAX_CONCURRENT_SEARCHES)

    async def add_cause(self, observation: Observation) -> Observation:
        """Add the cause; without a readable log, the exit code remains."""
        try:
            async with self._slots, asyncio.timeout(DIAGNOSIS_TIMEOUT):
                return replace(observation, cause=await self._find_cause(observation))
        except Exception as error:
            details = {"event": "diagnose", "attempt": observation.attempt_id, "error": str(error)}
            log.warning("could not search a log for the cause", extra=details)
            return observation

    async def _find_cause(self, observation: Observation) -> str:
        source = self._engine.open_log(observation.attempt_id, LogStream.MERGED)
        if source is None:
            return ""
        tail = await read_tail(source, TAIL_SIZE)
        return await asyncio.to_thread(find_cause, tail.decode("utf-8", "replace"), observation.code or 0)


async def read_tail(source: LogSource, most: int) -> bytes:
    end = await source.get_size()
    at = max(end - most, await source.find_first_offset())
    parts = []
    while at < end and (data := await source.read(at, end - at)):
        parts.append(data)
        at += len(data)
    return b"".join(parts)
