"""A small world where jobs come, wait, run and end, over the real queue, ledger and placing; time is whole numbers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from heapq import heappop, heappush

from holdfast.core.scheduling.backfill import TimeEstimates, compute_reserved_starts
from holdfast.core.scheduling.ledger import Ledger
from holdfast.core.scheduling.placement import Node, Placement, QueueEntry, Quota, ResourceAmount, TaskRequest
from holdfast.core.scheduling.placing import place_jobs
from holdfast.core.scheduling.queue import Queue

MIB = 1 << 20


@dataclass(frozen=True, kw_only=True)
class Spec:
    """A job to come."""

    id: str
    user: str = "ann"
    group: str = "red"
    priority: int = 0
    comes_at: int = 0
    cpu: float = 1
    memory: int = 1  # MiB
    gpu: int = 0
    cpu_request: float | None = None
    tasks: int = 1
    ports: int = 0
    limit: int | None = 10
    runs: int | None = None  # how long it really takes; None: to its limit

    @property
    def takes(self) -> int | None:
        return self.limit if self.runs is None else self.runs

    def waiting(self, order: int, attempt: int = 0) -> QueueEntry:
        amount = ResourceAmount(cpu=self.cpu, memory=self.memory * MIB, gpu=self.gpu)
        asked = None
        if self.cpu_request is not None:
            asked = ResourceAmount(cpu=min(self.cpu_request, self.cpu), memory=amount.memory, gpu=self.gpu)
        ports = {"web": self.ports} if self.ports else {}
        requests = tuple(
            TaskRequest(attempt_id=f"{self.id}.{attempt}.{i}", amount=amount, asked=asked, ports=ports)
            for i in range(self.tasks)
        )
        return QueueEntry(
            id=self.id,
            job_id=self.id,
            user=self.user,
            group=self.group,
            priority=self.priority,
            order=(float(order), self.id),
            requests=requests,
        )


@dataclass
class World:
    nodes: Sequence[Node]
    quotas: Mapping[str, tuple[Quota, Quota]]
    backfill: bool
    now: int = 0
    started: dict[str, int] = field(default_factory=dict)
    promised: dict[str, float] = field(default_factory=dict)  # the first reserved start of each job that had to wait

    def __post_init__(self) -> None:
        self.queue, self.ledger = Queue(), Ledger(self.nodes, self.quotas)
        self.specs: dict[str, Spec] = {}
        self.running: dict[str, int] = {}  # job -> since when
        self.ends: list[tuple[int, str]] = []
        self.arrivals = 0

    def submit(self, spec: Spec, attempt: int = 0) -> None:
        if spec.id not in self.specs:
            self.arrivals += 1
        self.specs[spec.id] = spec
        self.queue.add(spec.waiting(self.arrivals, attempt))

    def end(self, id: str) -> None:
        if self.running.pop(id, None) is not None:
            for attempt_id in [held for held in self.ledger.assignments if held.split(".")[0] == id]:
                self.ledger.remove_assignment(attempt_id)

    def estimates(self) -> TimeEstimates:
        return TimeEstimates(float(self.now), self._must_end, lambda id: self.specs[id].limit)

    def _must_end(self, attempt_id: str) -> float | None:
        id = attempt_id.split(".")[0]
        limit = self.specs[id].limit
        return None if limit is None else float(self.running.get(id, self.now) + limit)

    def place(self) -> list[Placement]:
        decisions = place_jobs(self.queue, self.ledger, self.estimates() if self.backfill else None)
        placed = [decision for decision in decisions if isinstance(decision, Placement)]
        for decision in placed:
            id = decision.waiting.id
            self.started.setdefault(id, self.now)
            self.running[id] = self.now
            takes = self.specs[id].takes
            if takes is not None:
                heappush(self.ends, (self.now + takes, id))
        return placed

    def live(self, specs: Sequence[Spec], *, promises: bool = False) -> World:
        """Until nothing happens any more."""
        coming = sorted(specs, key=lambda spec: spec.comes_at)
        while coming or self.ends:
            self.now = min([spec.comes_at for spec in coming[:1]] + [at for at, _ in self.ends[:1]])
            while self.ends and self.ends[0][0] == self.now:
                self.end(heappop(self.ends)[1])
            while coming and coming[0].comes_at == self.now:
                self.submit(coming.pop(0))
            self.place()
            if promises:
                for id, at in compute_reserved_starts(self.queue, self.ledger, self.estimates()).items():
                    self.promised.setdefault(id, at)
        return self
