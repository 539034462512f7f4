"""What waits and what is placed: the queue and the ledger, kept in step with the jobs."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from datetime import datetime

from holdfast.core.attempt import JobSnapshot
from holdfast.core.plan import Plan, assignment_of, waiting_of
from holdfast.core.scheduling.backfill import TimeEstimates
from holdfast.core.scheduling.ledger import Ledger
from holdfast.core.scheduling.placement import Node, Placed, Quota, Refused
from holdfast.core.scheduling.placing import place
from holdfast.core.scheduling.queue import Queue

from .live import Live

Decisions = list[Placed | Refused]


class Scheduler:
    def __init__(self, clock: Callable[[], datetime]) -> None:
        self._clock = clock
        self.queue = Queue()
        self.ledger = Ledger(())

    def open(self, nodes: Iterable[Node], quotas: Mapping[str, tuple[Quota, Quota]]) -> None:
        """Begin with nothing waiting and nothing placed."""
        self.queue, self.ledger = Queue(), Ledger(nodes, quotas)

    def place(self, reckoning: TimeEstimates | None) -> Decisions:
        """Decide what can be placed now, or never. `reckoning`: with backfill."""
        return place(self.queue, self.ledger, reckoning)

    def claim(self, snapshot: JobSnapshot) -> None:
        """All that its tasks occupy."""
        for task in snapshot.tasks:
            if task.occupies:
                self.ledger.claim(assignment_of(snapshot, task))

    def release(self, snapshot: JobSnapshot) -> None:
        for task in snapshot.tasks:
            self.ledger.release(snapshot.attempt_id(task))

    def release_ended(self, plans: Iterable[Plan]) -> None:
        for result in plans:
            for task in result.tasks:
                if task.state.ended or (task.held and not task.occupies):
                    self.ledger.release(result.after.attempt_id(task))

    def release_unused(self, decision: Placed, after: JobSnapshot) -> None:
        """A place that the plan did not take: by then the job was to stop, or decided."""
        if not (after.stop or after.outcome or after.state.final):
            return
        taken = {after.attempt_id(task) for task in after.tasks if task.state.live}
        for assignment in decision.assignments:
            if assignment.attempt_id not in taken:
                self.ledger.release(assignment.attempt_id)

    def undo(self, decisions: Decisions) -> None:
        for decision in decisions:
            if isinstance(decision, Placed):
                for assignment in decision.assignments:
                    self.ledger.release(assignment.attempt_id)

    def enqueue(self, live: Live, snapshot: JobSnapshot) -> None:
        """Have in the queue what of this job waits, and nothing else of it."""
        entries = waiting_of(snapshot, self._clock())
        waiting = {entry.id for entry in entries}
        for id in live.queued:
            if id not in waiting:
                self.queue.remove(id)
        for entry in entries:
            if self.queue.get(entry.id) != entry:
                self.queue.add(entry)
        live.queued = tuple(entry.id for entry in entries)

    def dequeue(self, live: Live) -> None:
        for id in live.queued:
            self.queue.remove(id)
        live.queued = ()
