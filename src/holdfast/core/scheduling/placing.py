"""Who runs where, now: a queue and what is in use -> assignments.

The rules, for each job in order: one that its user's quota has no room for is passed over; one that its group's quota
has no room for also stops those of the group behind it; one that waits for room on a machine has what it asks for set
aside there and in its quotas, so that later ones pass it only where they cannot delay it. With a `TimeEstimates`, later
jobs also pass where time limits say that they delay nobody (see backfill).

One pass costs what it places and the few jobs it has to look past, not the number of jobs that exist.
"""

from __future__ import annotations

from collections.abc import Iterator

from .backfill import TimeEstimates, may_pass
from .explanations import impossible
from .fitting import exhausted
from .ledger import Ledger
from .placement import Placed, Refused, Waiting
from .queue import Queue
from .queue_scan import Walk


def place(queue: Queue, ledger: Ledger, reckoning: TimeEstimates | None = None) -> list[Placed | Refused]:
    """One pass over the queue. What is placed is claimed in the ledger and leaves the queue."""
    decisions: list[Placed | Refused] = list(_refuse(queue, ledger))
    over = {decision.waiting.job_id for decision in decisions}  # such a job ends: no place for its other tasks
    decisions += _in_turn(queue, ledger, over)
    if reckoning is not None:
        for waiting, spots in may_pass(queue, ledger, reckoning, over):
            decisions.append(_start(waiting, spots, queue, ledger))
    return decisions


def _refuse(queue: Queue, ledger: Ledger) -> Iterator[Refused]:
    """What can never run is told so at once, not when its turn would come."""
    over: set[str] = set()  # once is enough to end a job
    for waiting in queue.take_unchecked():
        never = impossible(waiting, ledger) if waiting.job_id not in over else ()
        if never:
            over.add(waiting.job_id)
            queue.remove(waiting.id)
            yield Refused(waiting, never)


def _in_turn(queue: Queue, ledger: Ledger, over: set[str]) -> Iterator[Placed]:
    walk = Walk(ledger)
    for waiting in queue.walk(walk.closed):
        if exhausted(walk.open):
            return
        spots = walk.look(waiting) if waiting.job_id not in over else None
        if spots is not None:
            walk.took(waiting, spots)
            yield _start(waiting, spots, queue, ledger)


def _start(waiting: Waiting, spots: list[str], queue: Queue, ledger: Ledger) -> Placed:
    queue.remove(waiting.id)
    pairs = zip(waiting.requests, spots, strict=True)
    return Placed(waiting, tuple(ledger.assign(waiting, request, spot) for request, spot in pairs))
