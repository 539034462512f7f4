"""Why a task waits in the queue of its engine, and which jobs there use what it needs."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol, runtime_checkable

from holdfast.core.scheduling.blockers import BlockerKind
from holdfast.core.scheduling.placement import ResourceAmount


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueHolder:
    """A running task of this server, or all running jobs of another user of the engine's system."""

    attempt_id: str = ""  # empty: not a task of this server
    user: str = ""  # in the engine's system
    job_count: int = 1
    has: ResourceAmount
    until: datetime | None = None  # end of the last time limit; None: no limit


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueWait:
    kind: BlockerKind
    text: str
    start_at: datetime | None = None  # the system's own estimate
    holders: tuple[QueueHolder, ...] = ()


@runtime_checkable
class SupportsQueueWaits(Protocol):
    """An engine that queues tasks, and knows what they wait for."""

    async def explain_queue_wait(self, attempt_ids: Collection[str]) -> QueueWait | None:
        """Explain the wait of the first of these tasks that is queued; None if none is. EngineError if that is not
        known now."""
        ...
