"""Nodes of engines that queue and place tasks themselves: only the length of their queue counts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from holdfast.core.job import GIB
from holdfast.core.scheduling.backfill import TimeEstimates
from holdfast.core.scheduling.blockers import ActiveJob, BlockerKind, WaitExplanation
from holdfast.core.scheduling.explanations import explain_blockers, find_impossible_reasons, find_own_blockers
from holdfast.core.scheduling.ledger import Ledger
from holdfast.core.scheduling.placement import Node, Placement, QueueEntry, Quota, ResourceAmount
from holdfast.core.scheduling.placing import place_jobs
from holdfast.core.scheduling.queue import Queue
from holdfast.core.scheduling.waits import WaitContext, explain_wait
from tests.core.test_placement import placed, queue_of, waiting
from tests.core.waiting_cluster import NOW
from tests.longer import examples

ESTIMATES = TimeEstimates(0.0, lambda _: 100.0, lambda _: 100.0)


def cluster(limit: int = 3, reason: str = "") -> Node:
    return Node(name="cluster", cpu=1, memory=GIB, engines={"far": reason}, queue_limit=limit)


def machine(cpu: float = 4) -> Node:
    return Node(name="one", cpu=cpu, memory=16 * GIB, gpus=(0, 1), engines={"near": ""})


def far(id: str, tasks: int = 1, **fields: object) -> QueueEntry:
    return waiting(id, cpu=64, gpu=8, memory=999 * GIB, tasks=tasks, engine="far", **fields)


def near(id: str, cpu: float = 1, **fields: object) -> QueueEntry:
    return waiting(id, cpu=cpu, engine="near", **fields)


def start(ledger: Ledger, *ids: str) -> None:
    for id in ids:
        ledger.set_waiting(id, False)


def explain(entry: QueueEntry, queue: Queue, ledger: Ledger, *, backfill: bool = True) -> WaitExplanation:
    scene = WaitContext(
        queue=queue,
        ledger=ledger,
        estimates=ESTIMATES,
        now=NOW,
        find_job=lambda id: ActiveJob(name=f"the-{id}", user="ann", group="red", since=NOW, until=NOW),
        can_see_group=lambda _: True,
        backfill=backfill,
        usual_durations={"a": 10.0},
    )
    return explain_wait([entry], scene)


def list_texts(wait: WaitExplanation) -> list[str]:
    basis = [wait.estimate.basis] if wait.estimate else []
    return [*(blocker.text for blocker in wait.blockers), *wait.helps, *basis]


def test_tasks_enter_until_the_queue_is_full_whatever_they_request() -> None:
    ledger = Ledger([cluster(limit=3)])
    queue = queue_of(*(far(id) for id in "abcd"))
    (first, *_) = decisions = place_jobs(queue, ledger)
    assert [decision.waiting.id for decision in decisions] == ["a", "b", "c"]
    assert isinstance(first, Placement)
    (spot,) = first.assignments
    assert (spot.node, spot.engine, spot.gpus, spot.ports) == ("cluster", "far", (), {})


def test_a_task_that_has_started_or_ended_makes_room_for_the_next() -> None:
    ledger = Ledger([cluster(limit=2)])
    queue = queue_of(*(far(id) for id in "abcde"))
    assert placed(queue, ledger) == ["a", "b"]
    assert placed(queue, ledger) == []
    start(ledger, "a.0")
    start(ledger, "a.0")  # a second report changes nothing
    assert placed(queue, ledger) == ["c"]
    ledger.remove_assignment("b.0")
    assert placed(queue, ledger) == ["d"]
    ledger.remove_assignment("a.0")  # it did not wait any more
    assert placed(queue, ledger) == []


def test_a_gang_enters_as_a_whole_and_smaller_jobs_do_not_pass_it() -> None:
    ledger = Ledger([cluster(limit=3)])
    queue = queue_of(far("a", tasks=2), far("gang", tasks=2), far("small"))
    assert placed(queue, ledger) == ["a"]
    start(ledger, "a.0")
    assert placed(queue, ledger) == ["gang"]
    start(ledger, "a.1")
    assert placed(queue, ledger) == ["small"]


def test_a_gang_larger_than_the_limit_enters_an_empty_queue() -> None:
    ledger = Ledger([cluster(limit=2)])
    queue = queue_of(far("a"), far("gang", tasks=5), far("z"))
    assert placed(queue, ledger) == ["a"]
    start(ledger, "a.0")
    assert placed(queue, ledger) == ["gang"]
    start(ledger, "gang.0", "gang.1", "gang.2")
    assert placed(queue, ledger) == []
    start(ledger, "gang.3")
    assert placed(queue, ledger) == ["z"]


def test_quotas_count_for_waiting_tasks_too() -> None:
    ledger = Ledger([cluster(limit=10)], {"red": (Quota(gpu=16), Quota())})
    queue = queue_of(far("a"), far("b"), far("c"))
    assert placed(queue, ledger) == ["a", "b"]
    ledger.remove_assignment("a.0")
    assert placed(queue, ledger) == ["c"]


def test_engines_with_and_without_a_queue_do_not_disturb_each_other() -> None:
    ledger = Ledger([cluster(limit=1), machine(cpu=2)])
    queue = queue_of(far("a"), near("b", cpu=2), far("c"), near("d", cpu=2))
    assert placed(queue, ledger) == ["a", "b"]
    start(ledger, "a.0")
    assert placed(queue, ledger) == ["c"]
    ledger.remove_assignment("b.0")
    assert placed(queue, ledger) == ["d"]


def test_backfill_starts_no_job_of_a_full_queue_and_does_not_fail() -> None:
    ledger = Ledger([cluster(limit=2), machine(cpu=4)])
    assert placed(queue_of(far("x"), near("y", cpu=3)), ledger) == ["x", "y"]
    queue = queue_of(far("gang", tasks=2), far("small"), near("large", cpu=4), near("short", cpu=1))
    decisions = place_jobs(queue, ledger, replace(ESTIMATES, find_max_duration=lambda id: 1.0))
    assert [decision.waiting.id for decision in decisions] == ["short"]


def test_what_the_engine_could_never_run_is_left_to_it() -> None:
    ledger = Ledger([cluster()])
    assert find_impossible_reasons(far("a", tasks=100), ledger) == ()


def test_a_full_queue_is_named_as_the_reason() -> None:
    ledger = Ledger([cluster(limit=2), machine()])
    queue = queue_of(far("a"), far("b"), far("c"), far("d"))
    assert placed(queue, ledger) == ["a", "b"]
    third, fourth = queue.get("c"), queue.get("d")
    assert third is not None
    assert fourth is not None
    (blocker,) = find_own_blockers(third, ledger)
    assert blocker.kind is BlockerKind.ENGINE_QUEUE
    assert explain_blockers(third, queue, ledger) == ("2 tasks already wait in the queue of far.",)
    wait = explain(fourth, queue, ledger)
    assert list_texts(wait) == [
        "2 tasks already wait in the queue of far.",
        "Jobs ahead of it enter the queue of far first.",
        "1 job is ahead of it in the queue of group red.",
        "No estimate: the engine decides when its tasks run.",
    ]
    start(ledger, "a.0")
    assert explain(third, queue, ledger).blockers == ()


def test_a_job_behind_a_gang_is_told_so() -> None:
    ledger = Ledger([cluster(limit=2)])
    queue = queue_of(far("a"), far("gang", tasks=2), far("small"))
    assert placed(queue, ledger) == ["a"]
    small = queue.get("small")
    assert small is not None
    assert explain_blockers(small, queue, ledger, backfill=True) == (
        "Jobs ahead of it enter the queue of far first.",
        "1 job is ahead of it in the queue of group red.",
    )


def test_an_engine_that_is_not_available_admits_nothing_and_says_why() -> None:
    ledger = Ledger([cluster(reason="It does not respond.")])
    queue = queue_of(far("a"))
    assert placed(queue, ledger) == []
    entry = queue.get("a")
    assert entry is not None
    (blocker,) = find_own_blockers(entry, ledger)
    assert blocker.kind is BlockerKind.UNAVAILABLE
    assert blocker.text == "No available node can run it. Node cluster: It does not respond."


def test_tasks_that_run_count_as_used_and_never_more_than_there_is() -> None:
    ledger = Ledger([Node(name="cluster", cpu=8, memory=8 * GIB, engines={"far": ""}, queue_limit=9)])
    assert placed(queue_of(waiting("a", cpu=6, engine="far"), waiting("b", cpu=6, engine="far")), ledger) == ["a", "b"]
    assert ledger.get_free_amount("cluster").cpu == 8
    start(ledger, "a.0")
    assert ledger.get_free_amount("cluster").cpu == 2
    start(ledger, "b.0")
    assert ledger.get_free_amount("cluster") == ResourceAmount(cpu=0, memory=6 * GIB)
    ledger.remove_assignment("a.0")
    assert ledger.get_free_amount("cluster").cpu == 2


def test_assignments_recorded_again_keep_the_count() -> None:
    ledger = Ledger([cluster(limit=2)])
    assert placed(queue_of(far("a"), far("b")), ledger) == ["a", "b"]
    saved = list(ledger.assignments.values())
    start(ledger, "a.0")
    again = Ledger([cluster(limit=2)])
    for assignment in ledger.assignments.values():
        again.add_assignment(assignment)
    assert again.queued == {"cluster": 1}
    for assignment in saved:  # a plan that could not be saved
        again.add_assignment(assignment)
    assert again.queued == {"cluster": 2}


Job = tuple[bool, int, int, int]  # far, tasks, priority, cores


@pytest.mark.longer
@settings(max_examples=examples(300), deadline=None)
@given(
    jobs=st.lists(st.tuples(st.booleans(), st.integers(1, 5), st.integers(0, 1), st.integers(1, 5)), max_size=12),
    limit=st.integers(1, 4),
    quota=st.sampled_from((None, 6, 12)),
    steps=st.lists(st.integers(0, 20), max_size=20),
    backfill=st.booleans(),
)
def test_the_queue_never_exceeds_its_limit_and_every_job_enters_once(
    jobs: Sequence[Job], limit: int, quota: int | None, steps: Sequence[int], backfill: bool
) -> None:
    ledger = Ledger([cluster(limit), machine(cpu=6)], {"red": (Quota(cpu=quota), Quota())})
    queue = queue_of(
        *(
            waiting(f"j{i}", cpu=cpu, tasks=tasks, priority=priority, engine="far" if is_far else "near")
            for i, (is_far, tasks, priority, cpu) in enumerate(jobs)
        )
    )
    entered: list[str] = []
    for step in [*steps, *[-1] * 2 * len(jobs)]:
        for decision in place_jobs(queue, ledger, ESTIMATES if backfill else None):
            entered.append(decision.waiting.id)
            if isinstance(decision, Placement):
                check_entry(decision, ledger, limit)
        for entry in list(queue.iter_entries(set())):
            check_texts(entry, queue, ledger)
        advance(ledger, step)
    assert sorted(entered) == sorted(f"j{i}" for i in range(len(jobs)))
    assert len(queue) == 0


def check_entry(decision: Placement, ledger: Ledger, limit: int) -> None:
    """Everything that waits fits, or is one gang that entered an empty queue."""
    assert len(decision.assignments) == len(decision.waiting.requests)
    waits = [id for id, spot in ledger.assignments.items() if spot.node == "cluster" and spot.is_waiting]
    assert ledger.queued == {"cluster": len(waits)}
    assert len(waits) <= limit or len({id.split(".")[0] for id in waits}) == 1


def check_texts(entry: QueueEntry, queue: Queue, ledger: Ledger) -> None:
    texts = list_texts(explain(entry, queue, ledger))
    assert texts
    assert not [text for text in texts if " inf" in text or "nan" in text or "TiB" in text], texts


def advance(ledger: Ledger, step: int) -> None:
    """Start one task, or end one; -1: end all."""
    ids = list(ledger.assignments)
    if step < 0:
        for id in ids:
            ledger.remove_assignment(id)
    elif ids and step % 2:
        ledger.remove_assignment(ids[step % len(ids)])
    elif ids:
        start(ledger, ids[step % len(ids)])
