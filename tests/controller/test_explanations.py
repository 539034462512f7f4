"""Explanations of waiting jobs are worked out one at a time, beside the loop, and shared by those who ask the same."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Collection, Mapping
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from holdfast.controller.explanations import WaitExplainer
from holdfast.controller.live_jobs import LiveJob
from holdfast.controller.waits import ESTIMATE_PENDING_BASIS, SchedulingState
from holdfast.core.attempt import JobSnapshot, StopRequest, TaskAttempt
from holdfast.core.job import GIB, Job, Resources, Role
from holdfast.core.planning.steps import JobPolicy
from holdfast.core.planning.task_requests import build_queue_entries
from holdfast.core.scheduling.blockers import ActiveJob, BlockerKind
from holdfast.core.scheduling.ledger import Ledger
from holdfast.core.scheduling.placement import Node, ResourceAmount
from holdfast.core.scheduling.queue import Queue
from holdfast.core.states import TaskState
from holdfast.engines.engine_set import EngineSet
from holdfast.engines.queue_waits import QueueHolder, QueueWait
from tests.fake_engine import FakeEngine, FakeMachine

pytestmark = pytest.mark.anyio

NOW = datetime(2026, 3, 1, tzinfo=UTC)
TIMEOUT = 20.0


class Waits:
    """A machine of four cores, and jobs that ask for more than is left of them."""

    def __init__(self) -> None:
        self.queue, self.ledger = Queue(), Ledger([Node(name="one", cpu=4, memory=GIB)])
        self.live: dict[str, LiveJob] = {}
        self.taken = 0  # times that it was looked at how things stand
        self.threads: set[int] = set()

    def add(self, id: str, cpu: float, at: int = 0) -> None:
        role = Role(name="main", commands=("true",), resources=Resources(cpu=cpu, memory=1))
        submitted = NOW + timedelta(seconds=at)
        snapshot = JobSnapshot(id=id, job=Job(name=id, roles=(role,)), user="ann", submitted_at=submitted)
        (entry,) = build_queue_entries(snapshot, submitted)
        self.queue.add(entry)
        self.live[id] = LiveJob(snapshot=snapshot, queue_entry_ids=(entry.id,))

    def run(self, id: str) -> None:
        entry = self.queue.get(id)
        assert entry is not None
        self.queue.remove(id)
        self.ledger.assign_request(entry, entry.requests[0], "one")

    def standing(self) -> SchedulingState:
        self.taken += 1
        return SchedulingState(
            queue=self.queue,
            ledger=self.ledger,
            live=self.live,
            policy=self.policy,
            now=NOW,
            loop_time=0.0,
            backfill=False,
        )

    def policy(self, job: Job) -> JobPolicy:
        self.threads.add(threading.get_ident())
        return JobPolicy(time_limit=timedelta(hours=1), grace=timedelta())


@pytest.fixture
def waits() -> Waits:
    waits = Waits()
    waits.add("a", 3)
    waits.run("a")
    waits.add("b", 2)
    return waits


@pytest.fixture
async def explanations(waits: Waits) -> AsyncIterator[WaitExplainer]:
    explanations = WaitExplainer(waits.standing, EngineSet([FakeEngine(FakeMachine())]))
    yield explanations
    explanations.close()


async def usual(jobs: Mapping[str, ActiveJob]) -> dict[str, float]:
    return {}


def everything(group: str) -> bool:
    return True


async def test_it_is_worked_out_in_another_thread(waits: Waits, explanations: WaitExplainer) -> None:
    found = await explanations.explain_wait("b", everything, usual, TIMEOUT)
    assert found is not None
    assert [holder.name for holder in found.blockers[0].holders] == ["a"]
    assert waits.threads
    assert threading.get_ident() not in waits.threads


async def test_what_happens_meanwhile_changes_nothing(waits: Waits, explanations: WaitExplainer) -> None:
    """The answer is of one moment, and asking again is of another."""
    asked, go_on = asyncio.Event(), asyncio.Event()

    async def slowly(jobs: Mapping[str, ActiveJob]) -> dict[str, float]:
        asked.set()
        await go_on.wait()
        return {}

    task = asyncio.create_task(explanations.explain_wait("b", everything, slowly, TIMEOUT))
    await asyncio.wait_for(asked.wait(), TIMEOUT)
    again = asyncio.create_task(explanations.explain_wait("b", everything, usual, TIMEOUT))
    waits.ledger.remove_assignment("a.0.main-0.0")
    del waits.live["a"]
    go_on.set()
    before, after = await task, await again
    assert before is not None
    assert after is not None
    assert [blocker.holders[0].name for blocker in before.blockers] == ["a"]
    assert after.blockers == ()


async def test_those_who_ask_the_same_share_an_answer(waits: Waits, explanations: WaitExplainer) -> None:
    """Unless they see other jobs than the first one does."""
    waits.add("c", 2, at=1)
    found = await asyncio.gather(
        explanations.explain_wait("b", everything, usual, TIMEOUT),  # begins at once
        *(explanations.explain_wait("c", everything, usual, TIMEOUT) for _ in range(5)),
        explanations.explain_wait("c", lambda _: False, usual, TIMEOUT),
    )
    assert all(wait is found[1] for wait in found[1:6])
    assert found[6] is not None
    assert found[6].blockers[0].holders[0].name == ""
    assert waits.taken == 7 + 3  # each who asks, and each answer


async def test_who_waits_too_long_is_told_in_short(waits: Waits, explanations: WaitExplainer) -> None:
    asked, go_on = asyncio.Event(), asyncio.Event()

    async def slowly(jobs: Mapping[str, ActiveJob]) -> dict[str, float]:
        asked.set()
        await go_on.wait()
        return {}

    waits.add("c", 2, at=1)
    first = asyncio.create_task(explanations.explain_wait("b", everything, slowly, TIMEOUT))
    await asyncio.wait_for(asked.wait(), TIMEOUT)
    short = await explanations.explain_wait("c", everything, usual, 0.01)
    assert short is not None
    assert [(blocker.kind, blocker.holders) for blocker in short.blockers] == [("machines", ()), ("queue", ())]
    assert short.helps == ()
    assert short.estimate is not None
    assert short.estimate.basis == ESTIMATE_PENDING_BASIS
    go_on.set()
    assert await first is not None


async def test_a_copy_that_took_long_is_used_again_for_a_while(
    waits: Waits, explanations: WaitExplainer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("holdfast.controller.explanations.SLOW_COPY_SECONDS", 0.0)
    monkeypatch.setattr("holdfast.controller.explanations.SNAPSHOT_LIFETIME", 1e9)
    before = await explanations.explain_wait("b", everything, usual, TIMEOUT)
    waits.ledger.remove_assignment("a.0.main-0.0")
    again = await explanations.explain_wait("b", everything, usual, TIMEOUT)
    assert before is not None
    assert again is not None
    assert again.blockers == before.blockers != ()


async def test_one_who_goes_away_takes_no_answer_from_others(explanations: WaitExplainer) -> None:
    first = asyncio.create_task(explanations.explain_wait("b", everything, usual, TIMEOUT))
    second = asyncio.create_task(explanations.explain_wait("b", everything, usual, TIMEOUT))
    await asyncio.sleep(0)
    first.cancel()
    assert await asyncio.wait_for(second, TIMEOUT) is not None


async def test_a_job_that_does_not_wait_is_told_at_once(waits: Waits, explanations: WaitExplainer) -> None:
    assert await explanations.explain_wait("a", everything, usual, TIMEOUT) is None
    assert await explanations.explain_wait("gone", everything, usual, TIMEOUT) is None
    snapshot = waits.live["b"].snapshot
    stop = StopRequest(actor="ann", at=NOW)
    waits.live["b"].snapshot = JobSnapshot(
        id="b", job=snapshot.job, user="ann", submitted_at=snapshot.submitted_at, stop=stop
    )
    assert await explanations.explain_wait("b", everything, usual, TIMEOUT) is None
    assert waits.threads == set()


# --- tasks that wait in the queue of their engine ---------------------------------------------------------------------


class QueueEngine(FakeEngine):
    wait: QueueWait | None = None

    async def explain_queue_wait(self, attempt_ids: Collection[str]) -> QueueWait | None:
        return self.wait if list(attempt_ids) == ["q.0.main-0.0"] else None


def queue_task(waits: Waits) -> None:
    """Place job q, whose task then waits in the queue of its engine."""
    waits.add("q", 1)
    waits.queue.remove("q")
    snapshot = waits.live["q"].snapshot
    task = TaskAttempt(role="main", index=0, state=TaskState.PREPARING)
    waits.live["q"] = LiveJob(snapshot=replace(snapshot, tasks=(task,)))


async def test_a_wait_in_the_engines_queue_names_who_has_the_resources(waits: Waits) -> None:
    queue_task(waits)
    holders = (
        QueueHolder(attempt_id="a.0.main-0.0", has=ResourceAmount(cpu=1), until=NOW),
        QueueHolder(attempt_id="a.0.main-1.0", has=ResourceAmount(cpu=1), until=NOW),
        QueueHolder(user="eve", job_count=3, has=ResourceAmount(cpu=8)),
    )
    engine = QueueEngine(FakeMachine())
    engine.wait = QueueWait(kind=BlockerKind.ENGINE_WAIT, text="full", start_at=NOW, holders=holders)
    explainer = WaitExplainer(waits.standing, EngineSet([engine]))
    found = await explainer.explain_wait("q", everything, usual, TIMEOUT)
    assert found is not None
    (blocker,) = found.blockers
    assert (blocker.kind, blocker.text) == (BlockerKind.ENGINE_WAIT, "full")
    assert [(each.name, each.user, each.outside, each.job_count, each.has.cpu) for each in blocker.holders] == [
        ("", "eve", "fake", 3, 8),
        ("a", "ann", "", 1, 2),
    ]
    assert found.estimate is not None
    assert found.estimate.at == NOW
    hidden = await explainer.explain_wait("q", lambda _: False, usual, TIMEOUT)
    assert hidden is not None
    assert [(each.job_id, each.user) for each in hidden.blockers[0].holders] == [("", "eve"), ("", "")]
    explainer.close()


async def test_what_the_engine_can_never_start_has_no_estimate(waits: Waits) -> None:
    queue_task(waits)
    engine = QueueEngine(FakeMachine())
    explainer = WaitExplainer(waits.standing, EngineSet([engine]))
    assert await explainer.explain_wait("q", everything, usual, TIMEOUT) is None
    engine.wait = QueueWait(kind=BlockerKind.IMPOSSIBLE, text="never")
    found = await explainer.explain_wait("q", everything, usual, TIMEOUT)
    assert found is not None
    assert (found.blockers[0].kind, found.estimate) == (BlockerKind.IMPOSSIBLE, None)
    explainer.close()
