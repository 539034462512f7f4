"""What holds of the queue whatever comes: quotas, machines, and that passing delays nobody."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from holdfast.core.scheduling.ledger import Ledger
from holdfast.core.scheduling.placement import Node, Quota, ResourceAmount
from tests.longer import examples

from .queue_world import MIB, Spec, World

Scene = tuple[list[Node], dict[str, tuple[Quota, Quota]], list[Spec]]

EPSILON = 1e-6
USERS, GROUPS = ("ann", "bob", "cem"), ("red", "blue")

thorough = settings(max_examples=examples(300), deadline=None, suppress_health_check=[HealthCheck.too_slow])


def quota(most: int) -> st.SearchStrategy[Quota]:
    bound = st.sampled_from([None, *range(3, most + 1)])
    return st.builds(
        lambda cpu, memory, gpu: Quota(cpu=cpu, memory=None if memory is None else memory * MIB, gpu=gpu),
        bound,
        bound,
        bound,
    )


quotas = st.fixed_dictionaries({group: st.tuples(quota(6), quota(6)) for group in GROUPS})
machines = st.lists(
    st.tuples(st.integers(4, 9), st.integers(4, 9), st.integers(1, 4), st.integers(2, 4)), min_size=1, max_size=2
).map(
    lambda sizes: [
        Node(name=f"n{i}", cpu=cpu, memory=memory * MIB, gpus=tuple(range(gpus)), port_start=100, port_end=100 + ports)
        for i, (cpu, memory, gpus, ports) in enumerate(sizes)
    ]
)
AMPLE = [Node(name="ample", cpu=1000, memory=1000 * MIB, gpus=tuple(range(1000)))]


def numbered(specs: list[Spec]) -> list[Spec]:
    return [replace(spec, id=f"j{i:02}") for i, spec in enumerate(specs)]


any_job = st.builds(
    Spec,
    id=st.just(""),
    user=st.sampled_from(USERS),
    group=st.sampled_from(GROUPS),
    priority=st.sampled_from([0, 0, 0, 1]),
    cpu=st.sampled_from([0.5, 1, 1, 2, 3, 4]),
    memory=st.integers(1, 4),
    gpu=st.sampled_from([0, 0, 1, 2, 3]),
    cpu_request=st.sampled_from([None, None, 0.5, 1]),
    tasks=st.sampled_from([1, 1, 1, 2]),
    ports=st.sampled_from([0, 0, 0, 1]),
    limit=st.sampled_from([1, 2, 3, 5, 8, 13, 21, None]),
)
all_at_once = st.lists(any_job, min_size=5, max_size=14).map(numbered)

# Jobs that come one after the other, of users without quotas of their own: in groups that share nothing, or in one
# group on one machine.
plain_job = st.builds(
    Spec,
    id=st.just(""),
    user=st.sampled_from(USERS),
    group=st.sampled_from(GROUPS),
    comes_at=st.integers(0, 30),
    cpu=st.integers(1, 4),
    memory=st.integers(1, 4),
    gpu=st.integers(0, 4),
    ports=st.sampled_from([0, 0, 0, 1]),
    limit=st.sampled_from([1, 2, 3, 5, 8, 13, 21]),
)
over_time = st.lists(plain_job, min_size=5, max_size=16).map(lambda specs: numbered(sorted(specs, key=_comes_at)))
group_quotas = st.fixed_dictionaries({group: st.tuples(quota(6), st.just(Quota())) for group in GROUPS})
one_machine = st.tuples(st.integers(4, 9), st.integers(4, 9), st.integers(1, 4)).map(
    lambda size: [Node(name="one", cpu=size[0], memory=size[1] * MIB, gpus=tuple(range(size[2])))]
)
plain_scenes = st.tuples(st.just(AMPLE), group_quotas, over_time) | st.tuples(
    one_machine, group_quotas, over_time.map(lambda specs: [replace(spec, group="red") for spec in specs])
)


def _comes_at(spec: Spec) -> int:
    return spec.comes_at


@thorough
@given(machines, quotas, all_at_once)
def test_of_jobs_that_run_to_their_limits_none_starts_later_with_backfill(
    nodes: list[Node], bounds: dict[str, tuple[Quota, Quota]], specs: list[Spec]
) -> None:
    without = World(nodes, bounds, backfill=False).live(specs).started
    with_it = World(nodes, bounds, backfill=True).live(specs).started
    later = {id: (at, with_it.get(id)) for id, at in without.items() if with_it.get(id, at + 1) > at}
    assert not later


@thorough
@given(plain_scenes)
def test_nor_do_jobs_that_come_later_in_a_group_of_its_own(scene: Scene) -> None:
    nodes, bounds, specs = scene
    without = World(nodes, bounds, backfill=False).live(specs).started
    with_it = World(nodes, bounds, backfill=True).live(specs).started
    later = {id: (at, with_it.get(id)) for id, at in without.items() if with_it.get(id, at + 1) > at}
    assert not later


@thorough
@given(plain_scenes, st.data())
def test_jobs_that_end_early_break_no_promise(scene: Scene, data: st.DataObject) -> None:
    nodes, bounds, specs = scene
    early = [replace(spec, runs=data.draw(st.integers(1, spec.limit or 1))) for spec in specs]
    world = World(nodes, bounds, backfill=True).live(early, promises=True)
    broken = {id: (at, world.started.get(id)) for id, at in world.promised.items() if world.started[id] > at}
    assert not broken


acts = st.lists(
    st.tuples(st.sampled_from(["submit"] * 5 + ["end", "end", "fail", "cancel", "quotas", "wait"]), st.integers(0, 99)),
    min_size=5,
    max_size=50,
)


@thorough
@given(machines, st.lists(quotas, min_size=1, max_size=3), st.lists(any_job, min_size=5), acts, st.booleans())
def test_no_quota_and_no_machine_is_ever_overdrawn(
    nodes: list[Node],
    bounds: list[dict[str, tuple[Quota, Quota]]],
    jobs: list[Spec],
    steps: list[tuple[str, int]],
    backfill: bool,
) -> None:
    world = World(nodes, bounds[0], backfill=backfill)
    for number, (act, n) in enumerate(steps):
        _perform(world, act, n, number, jobs, bounds)
        before = {group: world.ledger.get_group_usage(group) for group in GROUPS}
        placed = world.place()
        check_machines(world.ledger, nodes)
        grown = {decision.waiting.group for decision in placed}
        assert all(world.ledger.get_group_usage(group) == before[group] for group in GROUPS if group not in grown)
        for decision in placed:  # those that ran before a quota shrank run on; nothing new starts above it
            check_quotas(world.ledger, decision.waiting.group, decision.waiting.user)
    for id in list(world.running):
        world.end(id)
    check_empty(world.ledger, nodes)


def _perform(
    world: World, act: str, n: int, number: int, jobs: list[Spec], bounds: list[dict[str, tuple[Quota, Quota]]]
) -> None:
    running = sorted(world.running)
    if act == "submit":
        world.submit(replace(jobs[n % len(jobs)], id=f"j{number:02}"))
    elif act == "wait":
        world.now += n % 7
    elif act == "quotas":
        world.ledger.quotas = dict(bounds[n % len(bounds)])
        world.queue.mark_all_unchecked()
    elif act == "cancel":
        world.queue.remove(f"j{n % 50:02}")
    elif running:
        id = running[n % len(running)]
        world.end(id)
        if act == "fail":  # and is tried again, at its old place in the queue
            world.submit(world.specs[id], attempt=number + 1)


def check_machines(ledger: Ledger, nodes: list[Node]) -> None:
    """From what is held, counted anew; not from the ledger's own sums."""
    for node in nodes:
        here = [held for held in ledger.assignments.values() if held.node == node.name]
        assert sum(held.needs.cpu for held in here) <= node.cpu + EPSILON
        assert sum(held.needs.memory for held in here) <= node.memory
        devices = [gpu for held in here for gpu in held.gpus]
        assert len(devices) == len(set(devices)) == sum(held.amount.gpu for held in here)
        assert set(devices) <= set(node.gpus)
        ports = [port for held in here for label in held.ports.values() for port in label]
        assert len(ports) == len(set(ports))
        assert ledger.free_ports[node.name] == node.port_end - node.port_start - len(ports)


def check_quotas(ledger: Ledger, group: str, user: str) -> None:
    of_group, of_user = ledger.quotas[group]
    mine = [held for held in ledger.assignments.values() if held.group == group]
    within(of_group, [held.amount for held in mine])
    within(of_user, [held.amount for held in mine if held.user == user])


def within(quota: Quota, amounts: list[ResourceAmount]) -> None:
    assert quota.cpu is None or sum(amount.cpu for amount in amounts) <= quota.cpu + EPSILON
    assert quota.memory is None or sum(amount.memory for amount in amounts) <= quota.memory
    assert quota.gpu is None or sum(amount.gpu for amount in amounts) <= quota.gpu


def check_empty(ledger: Ledger, nodes: list[Node]) -> None:
    assert not ledger.assignments
    for node in nodes:
        assert abs(ledger.free[node.name].cpu - node.cpu) < EPSILON
        assert ledger.free[node.name].memory == node.memory
        assert ledger.free_gpus[node.name] == set(node.gpus)
    for used in (*ledger.group_use.values(), *ledger.user_use.values()):
        assert abs(used.cpu) < EPSILON
        assert (used.memory, used.gpu) == (0, 0)
