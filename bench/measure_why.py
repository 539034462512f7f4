"""Load of explanations why a job waits: 50 nodes, 2,000 running jobs, 2,000 pending jobs.

The controller's part runs in this process, on an otherwise idle event loop. Measured are the CPU time of the loop's
thread for each request, and the delay of the loop's timers during parallel requests.
"""

from __future__ import annotations

import asyncio
import gc
import time
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

from tests.fake_engine import FakeEngine, FakeMachine

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
from holdfast.engines.engine_set import EngineSet

from .harness import Options, print_progress
from .rows import Row, below, percentile

NODE_COUNT = 50
GROUP_COUNT = 10
TIMEOUT = 60.0  # seconds for a response
REQUEST_INTERVAL = 1.0  # seconds before each request, so that none waits for another
TIMER_INTERVAL = 0.01  # seconds
NOW = datetime(2026, 3, 1, tzinfo=UTC)
LOOP_TIME = 100_000.0  # NOW on the loop's clock, in seconds


def measure(options: Options) -> list[Row]:
    jobs, requests = options.pick_size(2_000, 200), options.pick_size(10, 5)
    cluster = _FullCluster(jobs)
    gc.freeze()  # garbage collection can run in any thread, and is not measured
    print_progress(f"why: {jobs} jobs run, {jobs} wait")
    try:
        return asyncio.run(_measure(cluster, jobs, requests))
    finally:
        gc.unfreeze()


async def _measure(cluster: _FullCluster, jobs: int, requests: int) -> list[Row]:
    """Request explanations for jobs from all parts of the queue, each for the first time."""
    job_ids = [f"wait{number * jobs // requests}" for number in range(requests - 1)] + [f"wait{jobs - 1}"]
    explainer = WaitExplainer(cluster.make_scheduling_state, EngineSet([FakeEngine(FakeMachine())]))
    cpu_times, durations = [], []
    for job_id in job_ids:
        await asyncio.sleep(REQUEST_INTERVAL)
        started, cpu_started = time.monotonic(), time.thread_time()
        explanation = await explainer.explain_wait(job_id, lambda _: True, _estimate_durations, TIMEOUT)
        cpu_times.append(time.thread_time() - cpu_started)
        durations.append(time.monotonic() - started)
        if explanation is None or not explanation.blockers or explanation.estimate is None:
            raise RuntimeError("it was not explained")
    delays = await _measure_timer_delays(
        asyncio.gather(
            *(explainer.explain_wait(job_id, lambda _: True, _estimate_durations, TIMEOUT) for job_id in job_ids)
        )
    )
    explainer.close()
    note = f"{NODE_COUNT} machines, {jobs} jobs run, {jobs} wait; worst of {requests}"
    return [
        Row("why: processor time of the loop", 1000 * max(cpu_times), "ms", below(20), note),
        Row(
            "why: the loop is late",
            1000 * percentile(delays, 99),
            "ms",
            below(20),
            "99th percentile, while all are asked",
        ),
        Row("why: answer", 1000 * percentile(durations, 50), "ms", None, f"worst {1000 * max(durations):.0f} ms"),
    ]


async def _measure_timer_delays(work: asyncio.Future[Any]) -> list[float]:
    """Return the delay of each timer until the work is done, in seconds."""
    delays = []
    while not work.done():
        started = time.monotonic()
        await asyncio.wait([work], timeout=TIMER_INTERVAL)
        delays.append(time.monotonic() - started - TIMER_INTERVAL)
    await work
    return delays


async def _estimate_durations(jobs: Mapping[str, ActiveJob]) -> dict[str, float]:
    return dict.fromkeys(jobs, 3000.0)


class _FullCluster:
    """A full cluster with jobs of all sizes and groups, some without a time limit."""

    def __init__(self, jobs: int) -> None:
        nodes = [Node(name=f"m{n}", cpu=96, memory=768 * GIB, gpus=tuple(range(8))) for n in range(NODE_COUNT)]
        self._ledger = Ledger(nodes, {f"g{n}": (Quota(gpu=8 * NODE_COUNT), Quota()) for n in range(GROUP_COUNT)})
        self._queue = Queue()
        self._live: dict[str, LiveJob] = {}
        for number in range(jobs):
            self._add_running_job(number, 96 * NODE_COUNT / jobs)
        for number in range(jobs):
            self._add_pending_job(number)

    def make_scheduling_state(self) -> SchedulingState:
        return SchedulingState(
            queue=self._queue,
            ledger=self._ledger,
            live=self._live,
            policy=lambda job: JobPolicy(time_limit=job.time_limit or None, grace=timedelta(seconds=10)),
            now=NOW,
            loop_time=LOOP_TIME,
            backfill=False,
        )

    def _add_running_job(self, number: int, cpu: float) -> None:
        job = _make_job(number, f"run{number}", cpu=cpu, gpu=int(number % 5 == 0), tasks=1)
        task = TaskAttempt(
            role="main", index=0, state=TaskState.RUNNING, node=f"m{number % NODE_COUNT}", placed_at=NOW, started_at=NOW
        )
        snapshot = JobSnapshot(
            id=f"run{number}", job=job, user=f"u{number % 40}", submitted_at=NOW, state=JobState.RUNNING, tasks=(task,)
        )
        assignment: Assignment = build_assignment(snapshot, task)
        self._ledger.add_assignment(assignment)
        self._live[snapshot.id] = LiveJob(snapshot=snapshot, began=LOOP_TIME - number)

    def _add_pending_job(self, number: int) -> None:
        job = _make_job(number, f"wait{number}", cpu=1 + number % 32, gpu=number % 9, tasks=1 + number % 4)
        submitted_at = NOW + timedelta(seconds=number)
        snapshot = JobSnapshot(id=f"wait{number}", job=job, user=f"u{number % 40}", submitted_at=submitted_at)
        entries = build_queue_entries(snapshot, submitted_at)
        for entry in entries:
            self._queue.add(entry)
        self._live[snapshot.id] = LiveJob(snapshot=snapshot, queue_entry_ids=tuple(entry.id for entry in entries))


def _make_job(number: int, name: str, *, cpu: float, gpu: int, tasks: int) -> Job:
    resources = Resources(cpu=cpu, memory=GIB, gpu=gpu)
    role = Role(name="main", instances=tasks, commands=("sleep 9",), resources=resources)
    return Job(
        name=name,
        roles=(role,),
        group=f"g{number % GROUP_COUNT}",
        time_limit=timedelta(minutes=30 + number % 600) if number % 50 else timedelta(),
    )
