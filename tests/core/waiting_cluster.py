"""A place where jobs run and wait, as a table of situations needs it: each job in one line."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta

from holdfast.core.job import GIB
from holdfast.core.scheduling.backfill import TimeEstimates
from holdfast.core.scheduling.blockers import ActiveJob, WaitExplanation
from holdfast.core.scheduling.ledger import Ledger
from holdfast.core.scheduling.placement import Node, Placement, QueueEntry, Quota, ResourceAmount, TaskRequest
from holdfast.core.scheduling.placing import place_jobs
from holdfast.core.scheduling.queue import Queue
from holdfast.core.scheduling.waits import WaitContext, explain_wait

NOW = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)


def node(name: str = "one", cpu: float = 4, memory: int = 16, gpus: int = 0, ports: int = 100) -> Node:
    return Node(
        name=name, cpu=cpu, memory=memory * GIB, gpus=tuple(range(gpus)), port_start=1000, port_end=1000 + ports
    )


@dataclass(frozen=True, kw_only=True)
class Job:
    id: str
    cpu: float = 1
    memory: int = 1  # GiB
    gpu: int = 0
    tasks: int = 1
    ports: int = 0
    user: str = "ann"
    group: str = "red"
    priority: int = 0
    hours: float | None = 2  # its time limit
    ran: float = 1  # hours that it has run
    held: bool = False
    on: str = ""  # the machine it runs on

    def waiting(self, order: int) -> QueueEntry:
        amount = ResourceAmount(cpu=self.cpu, memory=self.memory * GIB, gpu=self.gpu)
        ports = {"web": self.ports} if self.ports else {}
        return QueueEntry(
            id=self.id,
            job_id=self.id,
            user=self.user,
            group=self.group,
            priority=self.priority,
            order=(float(order), self.id),
            requests=tuple(
                TaskRequest(attempt_id=f"{self.id}.{i}", amount=amount, ports=ports) for i in range(self.tasks)
            ),
        )


@dataclass
class Place:
    nodes: Sequence[Node]
    runs: Sequence[Job] = ()
    waits: Sequence[Job] = ()  # in the order they came; the last one is asked about
    quotas: Mapping[str, tuple[Quota, Quota]] = field(default_factory=dict)
    backfill: bool = False
    sees: Sequence[str] = ("red", "blue")
    usual: Mapping[str, float] = field(default_factory=dict)  # job -> hours that such ones took before

    def __post_init__(self) -> None:
        self.jobs = {job.id: job for job in (*self.runs, *self.waits)}
        self.ledger = Ledger(self.nodes)
        self.queue = Queue()
        for at, job in enumerate(self.runs):
            self._run(job.waiting(at), job)
        self.ledger.quotas = dict(self.quotas)
        for at, job in enumerate(self.waits):
            self.queue.add(job.waiting(len(self.runs) + at))

    def _run(self, waiting: QueueEntry, job: Job) -> None:
        if job.on:
            for request in waiting.requests:
                self.ledger.assign_request(waiting, request, job.on)
            return
        alone = Queue()
        alone.add(waiting)
        (decision,) = place_jobs(alone, self.ledger)
        assert isinstance(decision, Placement), decision

    @property
    def asked(self) -> QueueEntry:
        found = self.queue.get(self.waits[-1].id)
        assert found is not None
        return found

    def estimates(self) -> TimeEstimates:
        def ends(attempt_id: str) -> float | None:
            job = self.jobs[attempt_id.split(".")[0]]
            return None if job.hours is None else (job.hours - job.ran) * 3600

        def longest(job_id: str) -> float | None:
            hours = self.jobs[job_id].hours
            return None if hours is None else hours * 3600

        return TimeEstimates(0.0, ends, longest)

    def about(self, job_id: str) -> ActiveJob:
        job = self.jobs[job_id]
        runs = any(job is each for each in self.runs)
        until = NOW + timedelta(hours=max(0, job.hours - job.ran)) if runs and job.hours is not None else None
        since = NOW - timedelta(hours=job.ran) if runs else None
        return ActiveJob(name=f"the-{job.id}", user=job.user, group=job.group, since=since, until=until, held=job.held)

    def wait(self) -> WaitExplanation:
        return explain_wait([self.asked], self.scene())

    def scene(self) -> WaitContext:
        return WaitContext(
            queue=self.queue,
            ledger=self.ledger,
            estimates=self.estimates(),
            now=NOW,
            find_job=self.about,
            can_see_group=lambda group: group in self.sees,
            backfill=self.backfill,
            usual_durations={id: hours * 3600 for id, hours in self.usual.items()},
        )

    def pass_once(self, instead: QueueEntry | None = None) -> list[str]:
        """One pass of the real placing; `instead`: in place of the one that is asked about."""
        if instead is not None:
            self.queue.remove(self.asked.id)
            self.queue.add(replace(instead, id=f"{instead.id}-again", order=(1e9, instead.id)))
        decisions = place_jobs(self.queue, self.ledger, self.estimates() if self.backfill else None)
        return [decision.waiting.id for decision in decisions if isinstance(decision, Placement)]
