"""Keeps the queue and the ledger in sync with the jobs."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from datetime import datetime

from holdfast.core.attempt import JobSnapshot
from holdfast.core.job import Job
from holdfast.core.planning.steps import Plan
from holdfast.core.planning.task_requests import build_assignment, build_queue_entries
from holdfast.core.scheduling.backfill import TimeEstimates
from holdfast.core.scheduling.ledger import Ledger
from holdfast.core.scheduling.placement import Node, Placement, PlacementRefusal, Quota
from holdfast.core.scheduling.placing import place_jobs
from holdfast.core.scheduling.queue import Queue
from holdfast.core.states import TaskState

from .live_jobs import LiveJob

Decisions = list[Placement | PlacementRefusal]


class Scheduler:
    def __init__(
        self,
        clock: Callable[[], datetime],
        has_images: Callable[[JobSnapshot], bool],
        choose_engine: Callable[[Job], str],
    ) -> None:
        self._clock = clock
        self._has_images = has_images
        self._choose_engine = choose_engine
        self.queue = Queue()
        self.ledger = Ledger(())

    def reset(self, nodes: Iterable[Node], quotas: Mapping[str, tuple[Quota, Quota]]) -> None:
        self.queue, self.ledger = Queue(), Ledger(nodes, quotas)

    def update_nodes(self, nodes: Iterable[Node]) -> bool:
        """Replace the nodes and keep the assignments. Returns whether something changed."""
        ledger = Ledger(nodes, self.ledger.quotas)
        if ledger.nodes == self.ledger.nodes:
            return False
        for assignment in self.ledger.assignments.values():
            ledger.add_assignment(assignment)
        self.ledger = ledger
        self.queue.mark_all_unchecked()
        return True

    def place_jobs(self, estimates: TimeEstimates | None) -> Decisions:
        """Decide what can be placed now, or never. `estimates`: for backfill."""
        return place_jobs(self.queue, self.ledger, estimates)

    def claim_job(self, snapshot: JobSnapshot) -> None:
        for task in snapshot.tasks:
            if task.occupies_node:
                self.ledger.add_assignment(build_assignment(snapshot, task))

    def release_job(self, snapshot: JobSnapshot) -> None:
        for task in snapshot.tasks:
            self.ledger.remove_assignment(snapshot.build_attempt_id(task))

    def apply_task_changes(self, plans: Iterable[Plan]) -> None:
        """Release what ended tasks used. A task that has started leaves the queue of its engine."""
        for result in plans:
            for task in result.tasks:
                if task.state.ended or (task.held and not task.occupies_node):
                    self.ledger.remove_assignment(result.after.build_attempt_id(task))
                elif task.state.live and task.state is not TaskState.PREPARING:
                    self.ledger.set_waiting(result.after.build_attempt_id(task), False)

    def release_unused_assignments(self, decision: Placement, after: JobSnapshot) -> None:
        """Release an assignment that the plan did not use: the job is stopping or decided."""
        if not (after.stop or after.outcome or after.state.final):
            return
        taken = {after.build_attempt_id(task) for task in after.tasks if task.state.live}
        for assignment in decision.assignments:
            if assignment.attempt_id not in taken:
                self.ledger.remove_assignment(assignment.attempt_id)

    def undo_decisions(self, decisions: Decisions) -> None:
        for decision in decisions:
            if isinstance(decision, Placement):
                for assignment in decision.assignments:
                    self.ledger.remove_assignment(assignment.attempt_id)

    def update_queue_entries(self, live: LiveJob, snapshot: JobSnapshot) -> None:
        """Update them. A job whose images are missing is not in the queue."""
        entries = build_queue_entries(snapshot, self._clock(), self._choose_engine(snapshot.job))
        if entries and not self._has_images(snapshot):
            entries = ()
        waiting = {entry.id for entry in entries}
        for id in live.queue_entry_ids:
            if id not in waiting:
                self.queue.remove(id)
        for entry in entries:
            if self.queue.get(entry.id) != entry:
                self.queue.add(entry)
        live.queue_entry_ids = tuple(entry.id for entry in entries)

    def dequeue_job(self, live: LiveJob) -> None:
        for id in live.queue_entry_ids:
            self.queue.remove(id)
        live.queue_entry_ids = ()
