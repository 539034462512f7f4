"""The controller on an engine that misbehaves at random: every job comes to its right end, and none runs twice.

Store, plan, placement and controller are the real ones; time is virtual. HOLDFAST_SCHEDULES sets how many random
schedules are played, and HOLDFAST_SEED the first of them.
"""

from __future__ import annotations

import asyncio
import functools
import logging
import os
import random
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Concatenate, ParamSpec, TypeVar

import pytest
from sqlalchemy import Connection

from holdfast.controller.live_jobs import JobLimits
from holdfast.controller.loop import Controller
from holdfast.core.attempt import JobSnapshot, Observation, ObservedState
from holdfast.core.attempt_id import AttemptId
from holdfast.core.exits.exit import ExitKind
from holdfast.core.holds import HoldAction, HoldRequest
from holdfast.core.job import GIB, Hold, Job, JobFormat, Resources, Role
from holdfast.core.records import NewEvent
from holdfast.core.scheduling.placement import Node
from holdfast.core.states import JobState
from holdfast.store.database import Store
from holdfast.store.errors import StoreError
from holdfast.store.jobs import records as job_rows
from holdfast.store.vault import Vault
from tests.fake_cluster import FakeCluster
from tests.fake_engine import FakeEngine, FakeMachine, Faults

from .virtual_time import run_virtually

P = ParamSpec("P")
T = TypeVar("T")

SCHEDULES = int(os.environ.get("HOLDFAST_SCHEDULES", "100"))
FIRST_SEED = int(os.environ.get("HOLDFAST_SEED", "1"))
START = datetime(2030, 1, 1, tzinfo=UTC)
LIMITS = JobLimits(time_limit=timedelta(hours=2), grace=timedelta(seconds=30), max_grace=timedelta(hours=1))
END = 24 * 3600.0  # virtual seconds after which every job must have ended
FAULTY_UNTIL = 1800.0  # virtual seconds: an engine that never works again is no use to anybody
CALLS = ("start", "stop", "remove", "observe", "announce", "list")


class RandomFaults(Faults):
    """Lost, doubled, late and reordered notifications; calls that fail or hang before or after they took effect."""

    def __init__(self, pick: random.Random, is_open: Callable[[], bool]) -> None:
        self._pick = pick
        self._is_open = is_open
        self._rates = {call: pick.choice((0.0, 0.1, 0.5)) for call in CALLS}
        self._lost, self._doubled, self._late = (pick.choice((0.0, 0.2, 0.8)) for _ in range(3))

    def _works(self) -> bool:
        return asyncio.get_running_loop().time() > FAULTY_UNTIL

    async def before_call(self, call: str, attempt_id: str) -> None:
        await self._fail(call)

    async def after_call(self, call: str, attempt_id: str) -> None:
        await self._fail(call)

    async def _fail(self, call: str) -> None:
        if self._works() or self._pick.random() >= self._rates[call]:
            return
        kind = self._pick.choice(("raise", "raise", "slow", "hang"))
        if kind == "hang":
            await asyncio.Event().wait()
        elif kind == "slow":
            await asyncio.sleep(self._pick.expovariate(1 / 5))
        else:
            raise self._pick.choice((OSError("cannot"), RuntimeError("a bug"), TimeoutError()))

    def deliver_observation(self, notify: Callable[[Observation], None], observation: Observation) -> None:
        if not self._works() and self._pick.random() < self._lost:
            return
        self._deliver(notify, observation)
        if not self._works() and self._pick.random() < self._doubled:
            self._deliver(notify, observation)

    def _deliver(self, notify: Callable[[Observation], None], observation: Observation) -> None:
        delay = self._pick.expovariate(1 / 20) if self._pick.random() < self._late else 0.0
        asyncio.get_running_loop().call_later(delay, self._notify, notify, observation)

    def _notify(self, notify: Callable[[Observation], None], observation: Observation) -> None:
        if self._is_open():
            notify(observation)


class InlineStore(Store):
    """Writes and reads in place, so that virtual time does not pass meanwhile. Some writes fail, with or without having
    gone through."""

    failure_rate = 0.0
    pick = random.Random(0)

    @functools.cached_property
    def writing(self) -> Connection:
        conn = self._connect_writer()
        conn.connection.cursor().execute("PRAGMA synchronous = OFF")  # no schedule cuts the power
        return conn

    async def read(self, fn: Callable[Concatenate[Connection, P], T], /, *args: P.args, **kwargs: P.kwargs) -> T:
        await asyncio.sleep(0)
        return self._read_with_retry(functools.partial(_call, fn, args, kwargs))

    async def write(self, fn: Callable[Concatenate[Connection, P], T], /, *args: P.args, **kwargs: P.kwargs) -> T:
        await asyncio.sleep(0)
        fails = fn is job_rows.save_job_changes and self.pick.random() < self.failure_rate
        if fails and self.pick.random() < 0.5:
            raise StoreError("not written")
        with self.writing.begin():
            result = fn(self.writing, *args, **kwargs)
        if fails:
            raise StoreError("written, but nobody was told")
        return result


def _call(fn: Callable[..., T], args: tuple[Any, ...], kwargs: dict[str, Any], conn: Connection) -> T:
    return fn(conn, *args, **kwargs)


@dataclass
class Truth:
    """How a job's commands end, if nobody stops it."""

    job: Job
    code: int
    seconds: float
    stopped_at: float | None = None  # virtual time
    asked: bool = False  # to stop


@dataclass
class World:
    """One schedule: some jobs on one machine, with servers that come and go."""

    store: InlineStore
    seed: int
    is_cluster: bool = False  # the engine queues and places tasks itself
    machine: FakeMachine = field(default_factory=FakeMachine)
    truths: dict[str, Truth] = field(default_factory=dict)
    runs: Counter[tuple[str, str]] = field(default_factory=Counter)  # (job, task) -> how often it truly ran
    all_final: bool = False

    def __post_init__(self) -> None:
        self.pick = random.Random(self.seed)

    @staticmethod
    def now() -> datetime:
        return START + timedelta(seconds=asyncio.get_running_loop().time())

    async def play(self) -> None:
        for _ in range(self.pick.randint(1, 3)):  # servers, one after the other
            if self.all_final:
                break
            await self._serve(until=self.pick.expovariate(1 / 200), dies=self.pick.random() < 0.5)
        await self._serve(until=END, dies=False)

    async def _serve(self, until: float, dies: bool) -> None:
        store = self.store
        store.pick, store.failure_rate = self.pick, self.pick.choice((0.0, 0.0, 0.2))
        faults = RandomFaults(self.pick, lambda: engine in self.machine.engines)
        nodes = (Node(name="fake", cpu=3.0, memory=16 * GIB),)
        engine: FakeEngine = (
            FakeCluster(self.machine, now=self.now, faults=faults)
            if self.is_cluster
            else FakeEngine(self.machine, nodes=nodes, now=self.now, faults=faults)
        )
        engine._run_script = self._play(engine)  # type: ignore[method-assign]
        controller = Controller(store, engine, LIMITS, clock=self.now)
        working: list[asyncio.Task[None]] = []
        try:
            await controller.recover()
            working += [asyncio.create_task(controller.run()), asyncio.create_task(controller.attempts.run())]
            working += [asyncio.create_task(self._act(controller, store))]
            await self._wait_for_ends(controller, store, until)
        finally:
            for task in working:
                task.cancel()
            if dies:
                self.machine.engines.remove(engine)
                for task in asyncio.all_tasks() - {asyncio.current_task()}:  # type: ignore[arg-type]
                    task.cancel()
            await asyncio.gather(*working, return_exceptions=True)
            with suppress(ValueError):
                await controller.close()

    async def _wait_for_ends(self, controller: Controller, store: InlineStore, until: float) -> None:
        end = asyncio.get_running_loop().time() + until
        while asyncio.get_running_loop().time() < end:
            await asyncio.sleep(min(5.0, until))
            if len(self.truths) == self.wanted and not controller.list_snapshots() and self._is_clean(controller):
                self.all_final = True
                return

    def _is_clean(self, controller: Controller) -> bool:
        left = [id for id, task in self.machine.tasks.items() if not task.removed]
        return not left and not controller.attempts.list_tracked_attempts()

    # -- what people do

    @functools.cached_property
    def wanted(self) -> int:
        return self.pick.randint(1, 6 if self.is_cluster else 4)

    async def _act(self, controller: Controller, store: InlineStore) -> None:
        while True:
            if len(self.truths) < self.wanted:
                await self._submit(controller, store)
            await asyncio.sleep(self.pick.expovariate(1 / 30))
            for job_id, truth in self.truths.items():
                if truth.stopped_at is not None and asyncio.get_running_loop().time() >= truth.stopped_at:
                    truth.asked, truth.stopped_at = True, None  # the server may die before it answers
                    await controller.stop_job(job_id, "ann")
            for snapshot, task in controller.list_held_tasks():
                if self.pick.random() < 0.3:
                    request = HoldRequest(actor="ann", at=self.now(), action=HoldAction.RELEASE, task=task.task)
                    await controller.request_hold_change(snapshot.id, request)

    async def _submit(self, controller: Controller, store: InlineStore) -> None:
        code = self.pick.choice((0, 0, 0, 1, 3))
        hold = Hold() if self.pick.random() < 0.4 else None
        dialect = self.pick.choice((JobFormat.HOLDFAST, JobFormat.OPENPAI_V2))
        role = Role(
            name="main",
            commands=("sleep 1",),
            resources=Resources(cpu=1.0),
            instances=self.pick.randint(1, 3 if self.is_cluster else 2),
            max_task_retries=0,
        )
        job = Job(
            name="sample", roles=(role,), hold=hold, dialect=dialect, gang=self.pick.random() < 0.7, max_retries=0
        )
        now = self.now()
        event = NewEvent(kind="submitted", message="Submitted", at=now, actor="ann")
        new = job_rows.NewJob(job=job, user="ann", source="", submitted_at=now, event=event)
        made = await store.write(job_rows.insert_job, new=new)
        stopped_at = asyncio.get_running_loop().time() + self.pick.expovariate(1 / 100)
        stops = self.pick.random() < 0.3
        seconds = self.pick.choice((0.0, 0.0, 1.0, 40.0, 300.0))
        self.truths[made.summary.id] = Truth(job, code, seconds, stopped_at if stops else None)
        controller.add_job(await store.read(job_rows.load_snapshot, made.summary.id))

    def list_gang(self, job_id: str, job: Job) -> list[str]:
        count = job.task_count
        return [str(AttemptId(job_id, 0, "main", i, 0)) for i in range(count)] if count > 1 else []

    # -- what tasks do

    def _play(self, engine: FakeEngine) -> Callable[[Any], None]:
        def play(task: Any) -> None:
            id = AttemptId.parse(task.launch.attempt_id)
            truth = self.truths[id.job_id]
            self.runs[id.job_id, id.task] += 1
            task.ignores_term = self.pick.random() < 0.2
            seconds = truth.seconds * self.pick.random()
            asyncio.get_running_loop().call_later(seconds, self._end, task.launch.attempt_id, truth.code)

        return play

    def _end(self, attempt_id: str, code: int) -> None:
        """Its processes end whether or not a server is there."""
        FakeEngine(self.machine).fail_task(attempt_id, code) if code else FakeEngine(self.machine).finish_task(
            attempt_id
        )


def check(world: World, ends: dict[str, JobSnapshot]) -> None:
    for job_id, truth in world.truths.items():
        end = ends[job_id]
        assert end.state.final, (end.state, end.message)
        assert end.exit is not None
        if truth.asked and end.state is JobState.CANCELLED:
            continue
        expected = JobState.SUCCEEDED if truth.code == 0 else JobState.FAILED
        if not (truth.asked and end.state is JobState.FAILED):  # stopped while it was held
            assert end.state is expected, (truth, end.message)
        if end.state is JobState.FAILED:
            assert end.exit.kind is ExitKind.USER_ERROR, end.exit
            assert end.exit.code == truth.code
    for (job_id, task), count in world.runs.items():
        assert count == 1, f"{task} of {job_id} ran {count} times"
    for attempt_id, task in world.machine.tasks.items():
        assert task.seen.seen is ObservedState.EXITED, attempt_id
        assert task.removed, attempt_id


def check_cluster(world: World, ends: dict[str, JobSnapshot]) -> None:
    """Its queue was never too long, gangs began as a whole, and the machine of each task is known."""
    assert world.machine.longest_queue <= FakeCluster.queue_limit
    for job_id, truth in world.truths.items():
        tasks = [task for task in world.machine.tasks.values() if task.launch.job_id == job_id]
        if truth.job.gang and not truth.asked:
            assert len({task.seen.started_at for task in tasks}) == 1
            assert {task.launch.gang for task in tasks} == {tuple(world.list_gang(job_id, truth.job))}
        assert all(task.launch.node is None for task in tasks)
        for task in ends[job_id].tasks:
            assert task.started_at is None or task.host in FakeCluster.machines


async def play(store: InlineStore, seed: int, is_cluster: bool) -> None:
    world = World(store, seed, is_cluster)
    await world.play()
    ends = {id: await store.read(job_rows.load_snapshot, id) for id in world.truths}
    assert world.all_final, {id: (end.state, end.message, end.tasks) for id, end in ends.items()}
    check(world, ends)
    if is_cluster:
        check_cluster(world, ends)


@pytest.fixture
def store(tmp_path: Path) -> Iterator[InlineStore]:
    """One for all schedules: no job of a schedule is left when it ends."""
    opened = InlineStore.open(f"sqlite:///{tmp_path / 'test.db'}", vault=Vault.open(tmp_path / "key"))
    logging.disable(logging.CRITICAL)  # every fault is logged
    yield opened
    logging.disable(logging.NOTSET)
    opened.writing.close()
    opened.close_sync()


@pytest.mark.release_after(2)
@pytest.mark.longer
@pytest.mark.timeout(1200)
@pytest.mark.parametrize("engine", ["plain", "cluster"])
@pytest.mark.parametrize("part", range(5))
def test_every_job_comes_to_its_right_end_once(store: InlineStore, part: int, engine: str) -> None:
    first = FIRST_SEED + 2 * part + (engine == "cluster")  # a schedule is played on one of the two
    for seed in range(first, FIRST_SEED + SCHEDULES, 10):
        try:
            run_virtually(play(store, seed, engine == "cluster"))
        except BaseException as error:
            first = seed - (engine == "cluster")
            error.add_note(f"HOLDFAST_SEED={first} HOLDFAST_SCHEDULES=2 plays this schedule again.")
            raise
