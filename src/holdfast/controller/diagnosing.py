"""What the log of a failed task tells of the cause: an observation -> the same, with its cause where one is found.

Only for jobs whose dialect retries by cause; for all others it costs nothing. It depends on the log alone, which an
ended task keeps, so a server that dies before the cause is saved finds the same one again.
"""

from __future__ import annotations

import asyncio
import logging
from dataclasses import replace

from holdfast.core.attempt import JobSnapshot, Observation, Seen
from holdfast.core.exits.table import find_cause, may_have_cause
from holdfast.engines.base import Engine, LogSource, Stream

log = logging.getLogger(__name__)

TAIL = 64 * 1024  # bytes of the log that are looked at
MAX_CONCURRENT = 4
TIMEOUT = 10.0  # seconds for one log; after that it is left undiagnosed


def wants_diagnosis(snapshot: JobSnapshot, observation: Observation) -> bool:
    """It failed by itself. Once a stop or an outcome is decided, that is its cause."""
    return (
        observation.seen in (Seen.EXITED, Seen.HELD)
        and snapshot.job.dialect.openpai
        and may_have_cause(observation.code or 0)
        and not (observation.oom or observation.cause or snapshot.stop or snapshot.outcome)
    )


class Diagnosing:
    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._turns = asyncio.Semaphore(MAX_CONCURRENT)

    async def diagnose(self, observation: Observation) -> Observation:
        """A log that cannot be read tells nothing; the exit code still does."""
        try:
            async with self._turns, asyncio.timeout(TIMEOUT):
                return replace(observation, cause=await self._find(observation))
        except Exception as error:
            said = {"event": "diagnose", "attempt": observation.attempt_id, "error": str(error)}
            log.warning("could not look for a cause in a log", extra=said)
            return observation

    async def _find(self, observation: Observation) -> str:
        source = self._engine.log(observation.attempt_id, Stream.MERGED)
        if source is None:
            return ""
        tail = await read_tail(source, TAIL)
        return await asyncio.to_thread(find_cause, tail.decode("utf-8", "replace"), observation.code or 0)


async def read_tail(source: LogSource, most: int) -> bytes:
    end = await source.size()
    at = max(end - most, await source.first())
    parts = []
    while at < end and (data := await source.read(at, end - at)):
        parts.append(data)
        at += len(data)
    return b"".join(parts)
