"""Nodes of several engines, nodes that come and go, and what other programs use of them."""

from __future__ import annotations

from collections.abc import Mapping

from holdfast.core.job import GIB
from holdfast.core.scheduling.blockers import BlockerKind
from holdfast.core.scheduling.explanations import explain_blockers, find_impossible_reasons, find_own_blockers
from holdfast.core.scheduling.ledger import Ledger
from holdfast.core.scheduling.placement import Node, Placement, PlacementRefusal, ResourceAmount
from holdfast.core.scheduling.placing import place_jobs
from tests.core.test_placement import placed, queue_of, waiting


def machine(name: str, engines: Mapping[str, str], cpu: float = 4, others: float = 0, gpus: int = 0) -> Node:
    used = ResourceAmount(cpu=others)
    numbers = tuple(range(gpus))
    return Node(name=name, cpu=cpu, memory=16 * GIB, engines=engines, used_by_others=used, gpus=numbers)


def test_a_job_is_placed_on_nodes_of_its_engine_only() -> None:
    ledger = Ledger([machine("small", {"near": ""}, cpu=2), machine("large", {"far": ""}, cpu=64)])
    queue = queue_of(waiting("a", engine="near"), waiting("b", cpu=8, engine="far"), waiting("c", cpu=2, engine="near"))
    decisions = [each for each in place_jobs(queue, ledger) if isinstance(each, Placement)]
    found = {each.waiting.id: each.assignments[0] for each in decisions}
    assert {id: (spot.engine, spot.node) for id, spot in found.items()} == {
        "a": ("near", "small"),
        "b": ("far", "large"),
    }
    assert explain_blockers(waiting("c", cpu=2, engine="near"), queue, ledger)[0].endswith(
        "free: 1 core, 15 GiB of memory."
    )


def test_engines_on_one_machine_share_its_resources() -> None:
    ledger = Ledger([machine("one", {"near": "", "far": ""}, cpu=4)])
    assert placed(queue_of(waiting("a", cpu=3, engine="near"), waiting("b", cpu=3, engine="far")), ledger) == ["a"]


def test_a_job_waits_for_a_node_that_is_not_available_and_says_so() -> None:
    ledger = Ledger([machine("one", {"far": ""}, cpu=2), machine("two", {"far": "It is being drained."}, cpu=16)])
    large = waiting("a", cpu=8, engine="far")
    queue = queue_of(large)
    assert place_jobs(queue, ledger) == []
    assert find_impossible_reasons(large, ledger) == ()
    (blocker,) = find_own_blockers(large, ledger)
    assert blocker.kind is BlockerKind.UNAVAILABLE
    assert blocker.text == "No available node can run it. Node two: It is being drained."
    back = Ledger([machine("one", {"far": ""}, cpu=2), machine("two", {"far": ""}, cpu=16)])
    assert placed(queue, back) == ["a"]


def test_a_job_that_waits_for_an_absent_node_does_not_hold_up_others() -> None:
    ledger = Ledger([machine("one", {"far": ""}, cpu=2), machine("two", {"far": "Off."}, cpu=16)])
    queue = queue_of(waiting("large", cpu=8, engine="far"), waiting("small", cpu=2, engine="far"))
    assert placed(queue, ledger) == ["small"]


def test_a_job_that_no_node_could_ever_run_is_refused() -> None:
    ledger = Ledger([machine("one", {"far": "Off."}, cpu=2), machine("two", {"near": ""}, cpu=64)])
    (decision,) = place_jobs(queue_of(waiting("a", cpu=8, engine="far")), ledger)
    assert isinstance(decision, PlacementRefusal)
    assert decision.reasons == ("a task requests 8 cores, but the largest node has 2",)


def test_a_job_of_an_engine_without_nodes_waits() -> None:
    ledger = Ledger([machine("one", {"near": ""})])
    job = waiting("a", engine="far")
    assert place_jobs(queue_of(job), ledger) == []
    assert [blocker.text for blocker in find_own_blockers(job, ledger)] == ["The engine far has no nodes."]


def test_what_other_programs_use_is_not_given_to_tasks() -> None:
    ledger = Ledger([machine("one", {"far": ""}, cpu=4, others=3)])
    queue = queue_of(waiting("a", cpu=2, engine="far"), waiting("b", cpu=1, engine="far"))
    assert placed(queue, ledger) == ["b"]
    assert find_impossible_reasons(waiting("a", cpu=2, engine="far"), ledger) == ()


def test_ports_and_devices_of_a_node_that_returns_are_still_in_use() -> None:
    nodes = [machine("one", {"far": ""}, gpus=2)]
    ledger = Ledger(nodes)
    (first,) = place_jobs(queue_of(waiting("a", gpu=1, engine="far")), ledger)
    assert isinstance(first, Placement)
    again = Ledger(nodes)
    for assignment in ledger.assignments.values():
        again.add_assignment(assignment)
    (second,) = place_jobs(queue_of(waiting("b", gpu=1, engine="far")), again)
    assert isinstance(second, Placement)
    assert second.assignments[0].gpus != first.assignments[0].gpus
