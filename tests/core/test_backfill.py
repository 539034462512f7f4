from __future__ import annotations

from dataclasses import replace

import pytest

from holdfast.core.scheduling import backfill
from holdfast.core.scheduling.placement import Node, Quota

from .queue_world import MIB, Spec, World

ONE = [Node(name="one", cpu=100, memory=1000 * MIB, gpus=tuple(range(4)))]
FOUR_CORES = {"red": (Quota(cpu=4), Quota())}
RUNS = Spec(id="runs", cpu=3, limit=10)
HEAD = Spec(id="head", cpu=4, limit=10)


def world(*specs: Spec, quotas: dict[str, tuple[Quota, Quota]] = FOUR_CORES, nodes: list[Node] = ONE) -> World:
    """After one pass at time 0 for each, as they come."""
    made = World(nodes, quotas, backfill=True)
    for spec in specs:
        made.submit(spec)
        made.place()
    return made


@pytest.mark.parametrize(("limit", "passes"), [(5, True), (10, True), (11, False), (None, False)])
def test_a_job_passes_when_it_ends_before_the_head_can_start(limit: int | None, passes: bool) -> None:
    small = Spec(id="small", cpu=1, limit=limit)
    assert ("small" in world(RUNS, HEAD, small).running) == passes


def test_a_job_of_any_length_passes_where_it_takes_nothing_that_is_needed() -> None:
    quotas = {"red": (Quota(cpu=6, gpu=1), Quota())}
    holder = Spec(id="holder", cpu=1, gpu=1, limit=10)
    head = Spec(id="head", cpu=2, gpu=1, limit=10)
    assert "small" in world(holder, head, Spec(id="small", cpu=4, limit=None), quotas=quotas).running
    assert "small" not in world(holder, head, Spec(id="small", cpu=5, limit=None), quotas=quotas).running


def test_what_runs_without_limit_never_ends() -> None:
    endless = replace(RUNS, limit=None)
    assert "small" in world(endless, HEAD, Spec(id="small", cpu=1, limit=1000)).running
    assert "small" not in world(endless, HEAD, Spec(id="small", cpu=1, limit=None)).running


def test_what_should_have_ended_is_expected_now_so_nobody_passes_for_long() -> None:
    made = world(RUNS, HEAD)
    made.now = 50  # the one that runs is long past its limit
    made.submit(Spec(id="small", cpu=1, limit=1))
    assert made.place() == []


def test_every_waiting_job_has_a_reserved_start_not_the_head_alone() -> None:
    second = Spec(id="second", cpu=1, limit=3)
    made = world(RUNS, HEAD, replace(second, cpu=2), Spec(id="small", cpu=1, limit=9))
    assert set(made.running) == {"runs", "small"}
    assert backfill.compute_reserved_starts(made.queue, made.ledger, made.estimates()) == {"head": 10.0, "second": 20.0}


def test_without_the_setting_nobody_passes() -> None:
    made = world(RUNS, HEAD)
    made.backfill = False
    made.submit(Spec(id="small", cpu=1, limit=1))
    assert made.place() == []


def test_a_job_passes_one_that_waits_for_room_on_a_machine() -> None:
    nodes = [Node(name="one", cpu=4, memory=1000 * MIB)]
    for limit, passes in ((10, True), (11, False)):
        small = Spec(id="small", group="blue", cpu=1, limit=limit)
        assert ("small" in world(RUNS, HEAD, small, quotas={}, nodes=nodes).running) == passes


def test_ports_are_reckoned_with() -> None:
    nodes = [Node(name="one", cpu=100, memory=1000 * MIB, port_start=100, port_end=102)]
    runs, head = replace(RUNS, ports=1), replace(HEAD, ports=2)
    for limit, passes in ((10, True), (11, False)):
        small = Spec(id="small", cpu=0, ports=1, limit=limit)  # takes none of the group's quota
        assert ("small" in world(runs, head, small, nodes=nodes).running) == passes


def test_jobs_that_their_users_quota_stops_hold_up_nobody() -> None:
    quotas = {"red": (Quota(cpu=4), Quota(cpu=3))}
    own = Spec(id="own", cpu=1, limit=100)  # ann runs three already
    other = Spec(id="other", user="bob", cpu=1, limit=None)
    assert set(world(RUNS, own, other, quotas=quotas).running) == {"runs", "other"}


def test_only_so_many_jobs_are_reckoned_with(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(backfill, "MAX_JOBS_PER_GROUP", 3)
    waits = [replace(HEAD, id=f"h{i}") for i in range(3)]
    assert "small" not in world(RUNS, *waits, Spec(id="small", cpu=1, limit=1)).running
    assert "small" in world(RUNS, *waits[:2], Spec(id="small", cpu=1, limit=1)).running


def test_where_a_forecast_ends_early_only_what_ends_within_it_passes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(backfill, "MAX_FORECAST_CHECKS", 0)
    quotas = {"red": (Quota(cpu=6, gpu=1), Quota())}
    specs = (Spec(id="a", cpu=1, gpu=1, limit=10), Spec(id="b", cpu=1, gpu=1, limit=10), Spec(id="c", gpu=1, limit=5))
    short = Spec(id="small", cpu=1, limit=20)
    assert "small" in world(*specs, short, quotas=quotas).running
    assert "small" not in world(*specs, replace(short, limit=21), quotas=quotas).running
