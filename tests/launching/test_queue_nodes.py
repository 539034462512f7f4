"""Launches of tasks that are placed together, and on nodes whose engine places tasks itself."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

from holdfast.core.attempt import JobSnapshot
from holdfast.core.chosen_later import (
    has_placeholder,
    make_address_placeholder,
    make_first_port_placeholder,
    make_ports_placeholder,
)
from holdfast.core.job import Job, Resources, Role

from .scene import ADDRESSES, AT, launch_of, placed, v2_job
from .test_variables import two_roles

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


def test_options_of_the_job_override_those_of_its_type_and_those_of_its_group() -> None:
    role = replace(
        ROLE,
        type_options={"slurm": {"partition": "type", "qos": "type"}},
        engine_options={"slurm": {"partition": "job"}},
    )
    snapshot = placed(Job(name="x", roles=(role,)))
    tasks = tuple(replace(task, engine="slurm") for task in snapshot.tasks)
    group = {"partition": "group", "qos": "group", "account": "group"}
    launch = launch_of(replace(snapshot, tasks=tasks), group_options=group)
    assert launch.engine_options == {"partition": "job", "qos": "type", "account": "group"}


def fill(text: str, snapshot: JobSnapshot) -> str:
    """As an engine does."""
    for member, task in enumerate(snapshot.tasks):
        text = text.replace(make_address_placeholder(member), ADDRESSES[task.node or ""])
        for number, ports in enumerate(task.ports.values()):
            text = text.replace(make_ports_placeholder(member, number), ",".join(map(str, ports)))
            text = text.replace(make_first_port_placeholder(member, number), str(ports[0]))
    return text


def test_filled_in_the_variables_of_a_gang_are_those_of_any_other_engine() -> None:
    snapshot = two_roles()
    for number in range(len(snapshot.tasks)):
        known = launch_of(snapshot, number)
        later = launch_of(snapshot, number, queue_nodes=frozenset(ADDRESSES))
        assert any(has_placeholder(value) for value in later.env.values())
        ours = {"NVIDIA_VISIBLE_DEVICES"}  # the engine sets it
        filled = {name: fill(value, snapshot) for name, value in later.env.items() if name not in ours}
        assert filled == {name: value for name, value in known.env.items() if name not in ours}
        assert fill(later.entry, snapshot) == known.entry


def test_a_task_alone_only_knows_its_own_address_and_the_machines_of_others() -> None:
    job = replace(two_roles().job, gang=False)
    snapshot = replace(two_roles(), job=job)
    tasks = (snapshot.tasks[0], replace(snapshot.tasks[1], host="n7"), *snapshot.tasks[2:])
    env = launch_of(replace(snapshot, tasks=tasks), queue_nodes=frozenset(ADDRESSES)).env
    assert env["PAI_HOST_IP_worker_0"] == make_address_placeholder(0)
    assert env["PAI_CONTAINER_HOST_debug_PORT_LIST"] == make_ports_placeholder(0, list(tasks[0].ports).index("debug"))
    assert env["PAI_HOST_IP_worker_1"] == "n7"
    assert env["PAI_PORT_LIST_worker_1_debug"] == str(tasks[1].ports["debug"][0])
