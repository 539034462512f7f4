"""Places queue entries on nodes.

For each job in order: if its user's quota is exhausted, it is skipped. If its group's quota is exhausted, the rest of
the group's queue is blocked too. If it waits for a node, its request is reserved there and in its quotas, so that later
jobs cannot delay it. With `TimeEstimates`, later jobs are also backfilled (see backfill). If it waits for the queue of
an engine that places tasks itself, later jobs of that engine wait too.

One pass costs what it places and the few jobs it has to skip, not the number of all jobs.
"""

from __future__ import annotations

from collections.abc import Iterator

from .backfill import TimeEstimates, iter_backfill_jobs
from .explanations import find_impossible_reasons
from .ledger import Ledger
from .placement import Placement, PlacementRefusal, QueueEntry
from .queue import Queue
from .queue_scan import QueueScan


def place_jobs(
    queue: Queue, ledger: Ledger, estimates: TimeEstimates | None = None
) -> list[Placement | PlacementRefusal]:
    """Run one pass over the queue. Placed entries are claimed in the ledger and removed from the queue."""
    decisions: list[Placement | PlacementRefusal] = list(_refuse_impossible_jobs(queue, ledger))
    over = {decision.waiting.job_id for decision in decisions}  # such a job ends: its other tasks are not placed
    decisions += _place_jobs_in_order(queue, ledger, over)
    if estimates is not None:
        for waiting, spots in iter_backfill_jobs(queue, ledger, estimates, over):
            decisions.append(_place_entry(waiting, spots, queue, ledger))
    return decisions


def _refuse_impossible_jobs(queue: Queue, ledger: Ledger) -> Iterator[PlacementRefusal]:
    """Yield jobs that can never run at once, not when their turn comes."""
    over: set[str] = set()  # one refusal ends a job
    for waiting in queue.pop_unchecked_entries():
        never = find_impossible_reasons(waiting, ledger) if waiting.job_id not in over else ()
        if never:
            over.add(waiting.job_id)
            queue.remove(waiting.id)
            yield PlacementRefusal(waiting, never)


def _place_jobs_in_order(queue: Queue, ledger: Ledger, over: set[str]) -> Iterator[Placement]:
    walk = QueueScan(ledger)
    for waiting in queue.iter_entries(walk.closed_groups):
        if walk.is_exhausted():
            return
        spots = walk.find_or_reserve_nodes(waiting) if waiting.job_id not in over else None
        if spots is not None:
            walk.reserve(waiting, spots)
            yield _place_entry(waiting, spots, queue, ledger)


def _place_entry(waiting: QueueEntry, spots: list[str], queue: Queue, ledger: Ledger) -> Placement:
    queue.remove(waiting.id)
    pairs = zip(waiting.requests, spots, strict=True)
    return Placement(waiting, tuple(ledger.assign_request(waiting, request, spot) for request, spot in pairs))
