"""What it costs the others to ask why a job waits: 50 machines, 2,000 jobs that run, 2,000 that wait.

The controller's own part runs in this process, on a loop that has nothing else to do. Counted is the processor time of
the loop's thread for each, and how late timers of that loop come while many of them are worked out.
"""

from __future__ import annotations

import asyncio
import gc
import time
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

from holdfast.controller.explanations import WaitExplainer
from holdfast.controller.live_jobs import LiveJob
from holdfast.controller.waits import SchedulingState
from holdfast.core.attempt import JobSnapshot, TaskAttempt
from holdfast.core.job import GIB, Job, Resources, Role
from holdfast.core.planning.steps import JobPolicy
from holdfast.core.planning.task_requests import build_assignment, build_queue_entries
from holdfast.core.scheduling.blockers import ActiveJob
from holdfast.core.scheduling.ledger import Ledger
from holdfast.core.scheduling.placement import Assignment, Node, Quota
from holdfast.core.scheduling.queue import Queue
from holdfast.core.states import JobState, TaskState

from .harness import Options, say
from .rows import Row, below, percentile

MACHINES = 50
GROUPS = 10
TIMEOUT = 60.0  # seconds for an answer
REST = 1.0  # seconds before each question, so that none waits for its turn
TICK = 0.01  # seconds of a timer
NOW = datetime(2026, 3, 1, tzinfo=UTC)
TICKS = 100_000.0  # the same on the clock of a loop


def measure(options: Options) -> list[Row]:
    jobs, asked = options.pick(2_000, 200), options.pick(10, 5)
    place = _Crowd(jobs)
    gc.freeze()  # collecting garbage falls to whichever thread comes along, and is not what is measured
    say(f"why: {jobs} jobs run, {jobs} wait")
    try:
        return asyncio.run(_measure(place, jobs, asked))
    finally:
        gc.unfreeze()


async def _measure(place: _Crowd, jobs: int, asked: int) -> list[Row]:
    """Jobs from all over the queue, each asked about for the first time."""
    chosen = [f"wait{number * jobs // asked}" for number in range(asked - 1)] + [f"wait{jobs - 1}"]
    explanations = WaitExplainer(place.standing)
    on_loop, took = [], []
    for job_id in chosen:
        await asyncio.sleep(REST)
        began, spent = time.monotonic(), time.thread_time()
        found = await explanations.explain_wait(job_id, lambda _: True, _usual, TIMEOUT)
        on_loop.append(time.thread_time() - spent)
        took.append(time.monotonic() - began)
        if found is None or not found.blockers or found.estimate is None:
            raise RuntimeError("it was not explained")
    late = await _lateness(
        asyncio.gather(*(explanations.explain_wait(job_id, lambda _: True, _usual, TIMEOUT) for job_id in chosen))
    )
    explanations.close()
    note = f"{MACHINES} machines, {jobs} jobs run, {jobs} wait; worst of {asked}"
    return [
        Row("why: processor time of the loop", 1000 * max(on_loop), "ms", below(20), note),
        Row(
            "why: the loop is late",
            1000 * percentile(late, 99),
            "ms",
            below(20),
            "99th percentile, while all are asked",
        ),
        Row("why: answer", 1000 * percentile(took, 50), "ms", None, f"worst {1000 * max(took):.0f} ms"),
    ]


async def _lateness(work: asyncio.Future[Any]) -> list[float]:
    """How much later than it should a timer comes, each time until the work is done."""
    late = []
    while not work.done():
        began = time.monotonic()
        await asyncio.wait([work], timeout=TICK)
        late.append(time.monotonic() - began - TICK)
    await work
    return late


async def _usual(jobs: Mapping[str, ActiveJob]) -> dict[str, float]:
    return dict.fromkeys(jobs, 3000.0)


class _Crowd:
    """Everything is full; jobs of all sizes and groups, some without a time limit."""

    def __init__(self, jobs: int) -> None:
        nodes = [Node(name=f"m{n}", cpu=96, memory=768 * GIB, gpus=tuple(range(8))) for n in range(MACHINES)]
        self._ledger = Ledger(nodes, {f"g{n}": (Quota(gpu=8 * MACHINES), Quota()) for n in range(GROUPS)})
        self._queue = Queue()
        self._live: dict[str, LiveJob] = {}
        for number in range(jobs):
            self._run(number, 96 * MACHINES / jobs)
        for number in range(jobs):
            self._wait(number)

    def standing(self) -> SchedulingState:
        return SchedulingState(
            queue=self._queue,
            ledger=self._ledger,
            live=self._live,
            policy=lambda job: JobPolicy(time_limit=job.time_limit or None, grace=timedelta(seconds=10)),
            now=NOW,
            loop_time=TICKS,
            backfill=False,
        )

    def _run(self, number: int, cpu: float) -> None:
        job = _job(number, f"run{number}", cpu=cpu, gpu=int(number % 5 == 0), tasks=1)
        task = TaskAttempt(
            role="main", index=0, state=TaskState.RUNNING, node=f"m{number % MACHINES}", placed_at=NOW, started_at=NOW
        )
        snapshot = JobSnapshot(
            id=f"run{number}", job=job, user=f"u{number % 40}", submitted_at=NOW, state=JobState.RUNNING, tasks=(task,)
        )
        assignment: Assignment = build_assignment(snapshot, task)
        self._ledger.add_assignment(assignment)
        self._live[snapshot.id] = LiveJob(snapshot=snapshot, began=TICKS - number)

    def _wait(self, number: int) -> None:
        job = _job(number, f"wait{number}", cpu=1 + number % 32, gpu=number % 9, tasks=1 + number % 4)
        at = NOW + timedelta(seconds=number)
        snapshot = JobSnapshot(id=f"wait{number}", job=job, user=f"u{number % 40}", submitted_at=at)
        entries = build_queue_entries(snapshot, at)
        for entry in entries:
            self._queue.add(entry)
        self._live[snapshot.id] = LiveJob(snapshot=snapshot, queue_entry_ids=tuple(entry.id for entry in entries))


def _job(number: int, name: str, *, cpu: float, gpu: int, tasks: int) -> Job:
    resources = Resources(cpu=cpu, memory=GIB, gpu=gpu)
    role = Role(name="main", instances=tasks, commands=("sleep 9",), resources=resources)
    return Job(
        name=name,
        roles=(role,),
        group=f"g{number % GROUPS}",
        time_limit=timedelta(minutes=30 + number % 600) if number % 50 else timedelta(),
    )
