from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from holdfast.core.job import GIB
from holdfast.core.scheduling.explanations import explain_blockers, find_impossible_reasons
from holdfast.core.scheduling.ledger import Ledger
from holdfast.core.scheduling.placement import (
    Node,
    Placement,
    PlacementRefusal,
    QueueEntry,
    Quota,
    ResourceAmount,
    TaskRequest,
    format_bytes,
    format_cores,
    format_gpus,
)
from holdfast.core.scheduling.placing import place_jobs
from holdfast.core.scheduling.queue import Queue
from tests.longer import examples

EPSILON = 1e-6


def waiting(id: str, cpu: float = 1, gpu: int = 0, memory: int = GIB, tasks: int = 1, **fields: object) -> QueueEntry:
    known = {"job_id": id, "user": "ann", "group": "red", "priority": 0, "order": (float(len(id)), id)} | fields
    amount = ResourceAmount(cpu=cpu, memory=memory, gpu=gpu)
    requests = tuple(TaskRequest(attempt_id=f"{id}.{i}", amount=amount, ports={"http": 1}) for i in range(tasks))
    return QueueEntry(id=id, requests=requests, **known)  # type: ignore[arg-type]


def node(name: str = "one", cpu: float = 4, gpus: int = 0, memory: int = 16 * GIB) -> Node:
    return Node(name=name, cpu=cpu, memory=memory, gpus=tuple(range(gpus)))


def queue_of(*entries: QueueEntry) -> Queue:
    queue = Queue()
    for i, entry in enumerate(entries):
        queue.add(replace(entry, order=(float(i), entry.id)))
    return queue


def placed(queue: Queue, ledger: Ledger) -> list[str]:
    return [decision.waiting.id for decision in place_jobs(queue, ledger) if isinstance(decision, Placement)]


def test_all_tasks_or_none() -> None:
    ledger = Ledger([node(cpu=4)])
    queue = queue_of(waiting("a", cpu=3), waiting("b", cpu=1, tasks=2))
    assert placed(queue, ledger) == ["a"]
    assert [entry.id for entry in queue.iter_entries(set())] == ["b"]


def test_higher_priority_goes_first_then_the_older_one() -> None:
    queue = queue_of(waiting("a"), waiting("b"), waiting("c", priority=5))
    assert placed(queue, Ledger([node()])) == ["c", "a", "b"]


def test_a_small_job_may_not_take_what_the_head_of_the_queue_waits_for() -> None:
    ledger = Ledger([node(cpu=4)])
    assert placed(queue_of(waiting("running", cpu=3)), ledger) == ["running"]
    assert placed(queue_of(waiting("big", cpu=4), waiting("small", cpu=1)), ledger) == []


def test_a_job_that_waits_for_a_gpu_does_not_hold_up_others() -> None:
    ledger = Ledger([node(cpu=8, gpus=1)])
    assert placed(queue_of(waiting("holder", cpu=1, gpu=1)), ledger) == ["holder"]
    queue = queue_of(waiting("second", cpu=2, gpu=1), waiting("plain", cpu=5), waiting("more", cpu=1))
    assert placed(queue, ledger) == ["plain"]  # "more" would take the cores set aside for "second"


def test_the_user_quota_passes_over_and_the_group_quota_stops() -> None:
    quotas = {"red": (Quota(gpu=4), Quota(gpu=4))}
    first = queue_of(waiting("a", gpu=2, user="bob"), waiting("b", gpu=4, user="pan"), waiting("c", gpu=2, user="lin"))
    assert placed(first, Ledger([node(gpus=8)], quotas)) == ["a"]
    second = queue_of(waiting("a", gpu=2, user="bob"), waiting("b", gpu=4, user="bob"), waiting("c", gpu=2, user="lin"))
    assert placed(second, Ledger([node(gpus=8)], quotas)) == ["a", "c"]


def test_refusal_names_each_resource_against_the_largest_machine() -> None:
    ledger = Ledger([node(cpu=4, gpus=1), node("two", cpu=8)])
    (decision,) = place_jobs(queue_of(waiting("a", cpu=48, gpu=2, memory=64 * GIB)), ledger)
    assert isinstance(decision, PlacementRefusal)
    assert decision.reasons == (
        "a task requests 48 cores, but the largest node has 8",
        "a task requests 64 GiB of memory, but the largest node has 16 GiB",
        "a task requests 2 GPUs, but the largest node has 1",
    )


def test_what_can_never_run_is_refused_before_its_turn() -> None:
    ledger = Ledger([node(cpu=4)], {"red": (Quota(cpu=4), Quota())})
    queue = queue_of(waiting("a", cpu=4), waiting("b", cpu=4), waiting("c", cpu=99))
    assert sorted((type(d).__name__, d.waiting.id) for d in place_jobs(queue, ledger)) == [
        ("Placement", "a"),
        ("PlacementRefusal", "c"),
    ]
    assert place_jobs(queue, ledger) == []
    ledger.quotas = {"red": (Quota(cpu=2), Quota())}
    assert place_jobs(queue, ledger) == []  # nobody has said so
    queue.mark_all_unchecked()
    assert [(type(d).__name__, d.waiting.id) for d in place_jobs(queue, ledger)] == [("PlacementRefusal", "b")]
    assert len(queue) == 0


def with_ports(id: str, count: int, **fields: object) -> QueueEntry:
    request = TaskRequest(attempt_id=f"{id}.0", amount=ResourceAmount(cpu=1), ports={"web": count})
    known = {"job_id": id, "user": "ann", "group": "red", "priority": 0, "order": (0.0, id)} | fields
    return QueueEntry(id=id, requests=(request,), **known)  # type: ignore[arg-type]


def test_ports_that_are_too_few_are_waited_for_and_never_run_out() -> None:
    ledger = Ledger([Node(name="one", cpu=9, memory=GIB, port_start=100, port_end=110)])
    queue = queue_of(with_ports("a", 6), with_ports("b", 6), with_ports("c", 11), with_ports("d", 4))
    decisions = {d.waiting.id: d for d in place_jobs(queue, ledger)}
    assert {id: type(d).__name__ for id, d in decisions.items()} == {
        "a": "Placement",
        "c": "PlacementRefusal",
        "d": "Placement",
    }
    refused = decisions["c"]
    assert isinstance(refused, PlacementRefusal)
    assert refused.reasons == ("it requests 11 ports, but the nodes have 10",)
    entry = queue.get("b")
    assert entry is not None
    assert explain_blockers(entry, queue, ledger) == ("Not enough ports are free for its tasks.",)
    ledger.remove_assignment("a.0")
    assert placed(queue, ledger) == ["b"]


def test_a_refused_job_takes_no_place_for_its_other_tasks() -> None:
    ledger = Ledger([node(cpu=4)])
    queue = queue_of(
        waiting("a", cpu=1, job_id="j"), waiting("b", cpu=99, job_id="j"), waiting("c", cpu=99, job_id="j")
    )
    assert [(type(d).__name__, d.waiting.id) for d in place_jobs(queue, ledger)] == [("PlacementRefusal", "b")]
    assert ledger.assignments == {}


def test_refusal_when_no_single_machine_has_it_all() -> None:
    ledger = Ledger([node(cpu=4, gpus=1), node("two", cpu=8)])
    assert find_impossible_reasons(waiting("a", cpu=8, gpu=1), ledger) == (
        "no single node has all the resources that a task requests",
    )


def test_a_gang_larger_than_the_whole_place_is_refused() -> None:
    (reason,) = find_impossible_reasons(waiting("a", cpu=2, tasks=3), Ledger([node(cpu=4)]))
    assert "its 3 tasks start together" in reason


def test_a_quota_too_small_for_the_job_alone_is_a_refusal() -> None:
    ledger = Ledger([node(cpu=8)], {"red": (Quota(cpu=2), Quota())})
    assert find_impossible_reasons(waiting("a", cpu=3), ledger) == ("the quota of group red is 2 cores, 3 requested",)


def test_explains_every_reason_at_once() -> None:
    ledger = Ledger([node(cpu=4)], {"red": (Quota(cpu=4), Quota(cpu=4))})
    place_jobs(queue_of(waiting("a", cpu=3)), ledger)
    queue = queue_of(waiting("b", cpu=2), waiting("c", cpu=2))
    entry = queue.get("c")
    assert entry is not None
    reasons = explain_blockers(entry, queue, ledger)
    assert len(reasons) == 4
    assert "group red is 4 cores, 3 in use, 2 requested" in reasons[0]
    assert "user ann" in reasons[1]
    assert "free: 1 core," in reasons[2]
    assert reasons[3] == "1 job is ahead of it in the queue of group red."


def test_ports_differ_between_tasks_of_one_machine() -> None:
    (decision,) = place_jobs(queue_of(waiting("a", cpu=0.1, memory=1, tasks=30)), Ledger([node()]))
    assert isinstance(decision, Placement)
    ports = [port for spot in decision.assignments for port in spot.ports["http"]]
    assert len(set(ports)) == 30


operations = st.lists(
    st.tuples(
        st.sampled_from(["add", "add", "place", "release", "remove"]),
        st.integers(0, 30),
        st.sampled_from([0.1, 0.5, 1.0, 2.5]),
        st.integers(0, 2),
        st.integers(1, 3),
        st.sampled_from(["ann", "bob"]),
        st.sampled_from(["red", "blue"]),
    ),
    max_size=40,
)


@settings(max_examples=examples(200), deadline=None)
@given(operations)
def test_never_more_in_use_than_there_is_nor_than_quotas_allow(steps: list[tuple]) -> None:  # type: ignore[type-arg]
    nodes = [node("one", cpu=4, gpus=2), node("two", cpu=2, gpus=1, memory=4 * GIB)]
    quotas = {"red": (Quota(cpu=3, gpu=2), Quota(cpu=2)), "blue": (Quota(memory=6 * GIB), Quota(gpu=1))}
    ledger, queue = Ledger(nodes, quotas), Queue()
    for kind, n, cpu, gpu, tasks, user, group in steps:
        if kind == "add" and f"j{n}.0" not in ledger.assignments:
            queue.add(waiting(f"j{n}", cpu, gpu, tasks=tasks, user=user, group=group))
        elif kind == "place":
            place_jobs(queue, ledger)
        elif kind == "remove":
            queue.remove(f"j{n}")
        else:
            ledger.remove_assignment(f"j{n}.{tasks - 1}")
        check(ledger, nodes, quotas)
    for id in list(ledger.assignments):
        ledger.remove_assignment(id)
    for whole in nodes:
        assert abs(ledger.free[whole.name].cpu - whole.cpu) < EPSILON
        assert ledger.free_gpus[whole.name] == set(whole.gpus)
        assert not ledger.used_ports[whole.name]


def check(ledger: Ledger, nodes: list[Node], quotas: dict[str, tuple[Quota, Quota]]) -> None:
    """From what is held, counted anew; not from the ledger's own sums."""
    for whole in nodes:
        here = [spot for spot in ledger.assignments.values() if spot.node == whole.name]
        assert sum(spot.amount.cpu for spot in here) <= whole.cpu + EPSILON
        assert sum(spot.amount.memory for spot in here) <= whole.memory
        gpus = [gpu for spot in here for gpu in spot.gpus]
        assert len(gpus) == len(set(gpus)) == sum(spot.amount.gpu for spot in here)
        assert set(gpus) <= set(whole.gpus)
        ports = [port for spot in here for label in spot.ports.values() for port in label]
        assert len(ports) == len(set(ports))
    for group, (of_group, of_user) in quotas.items():
        mine = [spot for spot in ledger.assignments.values() if spot.group == group]
        within(of_group, [spot.amount for spot in mine])
        for user in ("ann", "bob"):
            within(of_user, [spot.amount for spot in mine if spot.user == user])


def within(quota: Quota, amounts: list[ResourceAmount]) -> None:
    assert quota.cpu is None or sum(amount.cpu for amount in amounts) <= quota.cpu + EPSILON
    assert quota.memory is None or sum(amount.memory for amount in amounts) <= quota.memory
    assert quota.gpu is None or sum(amount.gpu for amount in amounts) <= quota.gpu


@pytest.mark.parametrize(
    ("count", "shown"),
    [(0, "0 B"), (1023, "1023 B"), (1536, "1.5 KiB"), (512 << 20, "512 MiB"), (1023 * GIB, "1023 GiB"),
     (10240 * GIB, "10 TiB")],
)  # fmt: skip
def test_bytes_are_shown_in_the_largest_unit_that_fits(count: int, shown: str) -> None:
    assert format_bytes(count) == shown


def test_one_is_singular() -> None:
    assert [format_cores(cores) for cores in (0, 0.5, 1, 1.5, 2)] == [
        "0 cores",
        "0.5 cores",
        "1 core",
        "1.5 cores",
        "2 cores",
    ]
    assert [format_gpus(count) for count in (0, 1, 2)] == ["0 GPUs", "1 GPU", "2 GPUs"]


# -- quotas count limits, machines count what is asked of them


def test_machines_count_requests_and_quotas_count_limits() -> None:
    half = ResourceAmount(cpu=0.5, memory=GIB)
    jobs = [waiting(f"j{i}", cpu=2, memory=4 * GIB) for i in range(6)]
    over = [replace(job, requests=(replace(job.requests[0], asked=half),)) for job in jobs]
    ledger = Ledger([node(cpu=2, memory=16 * GIB)])
    assert placed(queue_of(*over), ledger) == ["j0", "j1", "j2", "j3"]
    assert ledger.free["one"] == ResourceAmount(cpu=0, memory=12 * GIB)
    assert ledger.get_group_usage("red") == ResourceAmount(cpu=8, memory=16 * GIB)
    ledger.remove_assignment("j0.0")
    assert ledger.free["one"] == ResourceAmount(cpu=0.5, memory=13 * GIB)
    bounded = Ledger([node(cpu=2, memory=16 * GIB)], {"red": (Quota(cpu=4), Quota())})
    assert placed(queue_of(*over), bounded) == ["j0", "j1"]


def test_what_is_said_names_requests_for_machines_and_limits_for_quotas() -> None:
    big = waiting("a", cpu=8, memory=32 * GIB)
    big = replace(big, requests=(replace(big.requests[0], asked=ResourceAmount(cpu=6, memory=GIB)),))
    assert find_impossible_reasons(big, Ledger([node(cpu=4)], {"red": (Quota(cpu=7), Quota())})) == (
        "a task requests 6 cores, but the largest node has 4",
        "the quota of group red is 7 cores, 8 requested",
    )
    assert find_impossible_reasons(big, Ledger([node(cpu=6)])) == ()
    full = Ledger([node(cpu=6)])
    assert placed(queue_of(waiting("x", cpu=1)), full) == ["x"]
    assert explain_blockers(big, Queue(), full) == (
        "It requests 6 cores, 1 GiB of memory; free: 5 cores, 15 GiB of memory.",
    )


# -- two faults that PrimeHub had


def test_the_queue_sees_memory_quotas() -> None:
    ledger = Ledger([node(cpu=8)], {"red": (Quota(memory=4 * GIB), Quota(memory=3 * GIB))})
    queue = queue_of(
        waiting("a", memory=3 * GIB, user="bob"),
        waiting("b", memory=GIB, user="bob"),  # its user's quota: passed
        waiting("c", memory=2 * GIB, user="lin"),  # the group's: stops
        waiting("d", memory=GIB, user="pan"),
    )
    assert placed(queue, ledger) == ["a"]
    ledger.remove_assignment("a.0")
    assert placed(queue, ledger) == ["b", "c", "d"]


def test_cores_are_compared_with_the_quota_of_cores_and_memory_with_that_of_memory() -> None:
    ledger = Ledger([node(cpu=8)], {"red": (Quota(cpu=2, memory=8 * GIB), Quota(cpu=2, memory=8 * GIB))})
    assert find_impossible_reasons(waiting("a", cpu=2, memory=8 * GIB), ledger) == ()
    reasons = find_impossible_reasons(waiting("a", cpu=3, memory=GIB), ledger)
    assert reasons == (
        "the quota of group red is 2 cores, 3 requested",
        "each user's quota in red is 2 cores, 3 requested",
    )
    (reason, _) = find_impossible_reasons(waiting("a", cpu=1, memory=9 * GIB), ledger)
    assert reason == "the quota of group red is 8 GiB of memory, 9 GiB requested"


def test_a_job_that_waits_for_a_machine_keeps_its_share_of_the_quotas() -> None:
    ledger = Ledger([node(cpu=8, gpus=1)], {"red": (Quota(cpu=4), Quota()), "blue": (Quota(), Quota(cpu=4))})
    assert placed(queue_of(waiting("holder", gpu=1, group="green")), ledger) == ["holder"]
    queue = queue_of(waiting("a", cpu=3, gpu=1), waiting("b", cpu=2), waiting("c", cpu=1))
    assert placed(queue, ledger) == []  # "b" would take what "a" of the same group may have
    queue = queue_of(waiting("a", cpu=3, gpu=1, group="blue"), waiting("b", cpu=2, group="blue", user="lin"))
    assert placed(queue, ledger) == ["b"]


# -- what is said of one that would fit


def test_tells_whom_a_job_waits_behind() -> None:
    ledger = Ledger([node(cpu=8)], {"red": (Quota(cpu=4), Quota())})
    place_jobs(queue_of(waiting("a", cpu=3)), ledger)
    queue = queue_of(waiting("b", cpu=2), waiting("c", cpu=1))
    assert placed(queue, ledger) == []
    entry = queue.get("c")
    assert entry is not None
    behind = "b, ahead of it in the queue, is waiting for the quota of group red."
    stands = "1 job is ahead of it in the queue of group red."
    assert explain_blockers(entry, queue, ledger) == (behind, stands)
    too_long = "It cannot be backfilled: its time limit would delay a job ahead of it."
    assert explain_blockers(entry, queue, ledger, backfill=True) == (behind, too_long, stands)


def test_tells_that_room_is_set_aside_for_a_job_of_another_group() -> None:
    ledger = Ledger([node(cpu=4)])
    place_jobs(queue_of(waiting("a", cpu=3)), ledger)
    queue = queue_of(waiting("b", cpu=4, group="blue"), waiting("c", cpu=1))
    assert placed(queue, ledger) == []
    entry = queue.get("c")
    assert entry is not None
    assert explain_blockers(entry, queue, ledger) == ("Free resources are reserved for jobs ahead of it in the queue.",)


# -- what held tasks keep


def test_tells_what_held_tasks_have_of_what_is_missing_and_not_whose_they_are() -> None:
    ledger = Ledger([node(cpu=4)])
    queue = queue_of(waiting("mine", cpu=1), waiting("secret", cpu=2, user="bob", group="blue", tasks=1))
    assert placed(queue, ledger) == ["mine", "secret"]
    entry = waiting("next", cpu=2)
    asks = "It requests 2 cores, 1 GiB of memory; free: 1 core, 14 GiB of memory."
    give = "Their owners can free it with `holdfast release` or `holdfast extend --files-only`."
    both = ["mine.0", "secret.0", "gone.0"]
    assert explain_blockers(entry, Queue(), ledger) == (asks,)
    assert explain_blockers(entry, Queue(), ledger, held=both) == (asks, f"Tasks on hold (2) use 3 cores. {give}")
    assert explain_blockers(entry, Queue(), ledger, held=["secret.0"]) == (
        asks,
        f"Tasks on hold (1) use 2 cores. {give}",
    )
    assert explain_blockers(waiting("small", cpu=1), Queue(), ledger, held=both) == ()


def test_held_tasks_that_have_nothing_of_what_is_missing_are_not_told() -> None:
    ledger = Ledger([node(cpu=8, gpus=1)])
    assert placed(queue_of(waiting("held", cpu=1), waiting("runs", cpu=1, gpu=1)), ledger) == ["held", "runs"]
    assert len(explain_blockers(waiting("next", cpu=1, gpu=1), Queue(), ledger, held=["held.0"])) == 1


def test_held_tasks_count_for_the_quotas_of_their_own_group_and_user() -> None:
    ledger = Ledger([node(cpu=16)], {"red": (Quota(cpu=4), Quota()), "blue": (Quota(), Quota(memory=2 * GIB))})
    queue = queue_of(
        waiting("a", cpu=3, user="bob"),
        waiting("b", cpu=1, group="blue", user="bob"),
        waiting("c", cpu=1, group="blue", memory=2 * GIB),
    )
    assert placed(queue, ledger) == ["a", "b", "c"]
    held = ["a.0", "b.0", "c.0"]
    assert "Tasks on hold (1) use 3 cores." in explain_blockers(waiting("d", cpu=2), Queue(), ledger, held=held)[-1]
    reasons = explain_blockers(waiting("e", group="blue"), Queue(), ledger, held=held)
    assert "Tasks on hold (1) use 2 GiB of memory." in reasons[-1]
    assert len(explain_blockers(waiting("e", group="blue"), Queue(), ledger, held=["a.0", "b.0"])) == 1


def test_held_tasks_are_told_where_enough_is_free_but_not_on_one_machine() -> None:
    ledger = Ledger([node(cpu=4), node("two", cpu=4)])
    assert placed(queue_of(waiting("a", cpu=3, tasks=2)), ledger) == ["a"]
    told = explain_blockers(waiting("b", cpu=2), Queue(), ledger, held=["a.0"])[-1]
    assert told.startswith("Tasks on hold (1) use 3 cores, 1 GiB of memory.")
