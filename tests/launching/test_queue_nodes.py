"""Launches of tasks that are placed together, and on nodes whose engine places tasks itself."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

from holdfast.core.job import Job, Resources, Role

from .scene import AT, launch_of, placed, v2_job

ROLE = Role(name="main", commands=("true",), instances=3, ports={"web": 2}, resources=Resources(gpu=1))


def test_a_gang_is_everything_placed_together() -> None:
    snapshot = placed(Job(name="x", roles=(ROLE,)))
    ids = tuple(snapshot.build_attempt_id(task) for task in snapshot.tasks)
    assert [launch_of(snapshot, i).gang for i in range(3)] == [ids] * 3
    assert launch_of(placed(Job(name="x", roles=(ROLE,), gang=False))).gang == ()
    assert launch_of(placed(Job(name="x", roles=(replace(ROLE, instances=1),)))).gang == ()


def test_tasks_placed_at_another_time_are_not_in_the_gang() -> None:
    snapshot = placed(Job(name="x", roles=(ROLE,)))
    first = replace(snapshot.tasks[0], placed_at=AT + timedelta(seconds=1))
    snapshot = replace(snapshot, tasks=(first, *snapshot.tasks[1:]))
    assert [len(launch_of(snapshot, i).gang) for i in range(3)] == [0, 2, 2]


def test_the_engine_of_a_queue_node_chooses_machine_devices_and_ports() -> None:
    snapshot = placed(Job(name="x", roles=(ROLE,)))
    launch = launch_of(snapshot, queue_nodes=frozenset({"node-a"}))
    assert (launch.node, launch.gpus, launch.ports, launch.port_counts) == (None, (), {}, {"web": 2})
    assert launch.leaves_gpus_to_engine
    other = launch_of(snapshot, 1, queue_nodes=frozenset({"node-a"}))
    assert (other.node, other.ports, other.port_counts) == ("node-b", snapshot.tasks[1].ports, {})


def test_openpai_tasks_see_the_devices_that_the_engine_chooses() -> None:
    for gpu, expected in ((0, "none"), (1, None)):
        job = v2_job(["true"], role={"resourcePerInstance": {"cpu": 1, "memoryMB": 512, "gpu": gpu}})
        env = launch_of(job, queue_nodes=frozenset({"node-a"})).env
        assert env.get("NVIDIA_VISIBLE_DEVICES") == expected


def test_options_are_those_of_the_engine_that_runs_it() -> None:
    role = replace(ROLE, engine_options={"far": {"partition": "gpu"}})
    snapshot = placed(Job(name="x", roles=(role,)))
    for engine, expected in (("far", {"partition": "gpu"}), ("near", {}), ("", {})):
        tasks = tuple(replace(task, engine=engine) for task in snapshot.tasks)
        assert launch_of(replace(snapshot, tasks=tasks)).engine_options == expected
