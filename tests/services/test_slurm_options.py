"""Options for Slurm of settings, groups, instance types, SKU types and jobs, as an engine gets them."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from holdfast.core.access import Actor
from holdfast.core.catalogue import InstanceType
from holdfast.core.errors import Forbidden, InvalidJob, UserError
from holdfast.core.job import GIB
from holdfast.core.records import Group
from holdfast.core.scheduling.placement import Node
from holdfast.core.states import JobState
from holdfast.services.catalogue.instance_types import InstanceTypeChange
from holdfast.services.people.groups import GroupChange
from tests.fake_engine import FakeEngine

from .house import House, open_house

pytestmark = pytest.mark.anyio

NODES = (Node(name="cluster", cpu=64.0, memory=512 * GIB, gpus=tuple(range(8)), queue_limit=100),)
A100 = InstanceType(
    name="a100",
    cpu=4,
    memory=8 * GIB,
    gpu=1,
    slurm={"partition": "gpu", "constraint": "ib", "gres": "gpu:a100:1,nvme:1"},
)
SLEEP = "name: j\ncommand: sleep 60\n"


@pytest.fixture
async def cluster(tmp_path: Path) -> AsyncIterator[House]:
    settings = {"slurm": {"folder": "/shared", "partition": "cpu", "qos": "normal"}}
    engine = FakeEngine(name="slurm", nodes=NODES)
    async with open_house(tmp_path / "home", settings=settings, engine=engine) as house:
        await house.services.instance_types.create(house.admin, A100)
        await house.services.groups.create(
            house.admin, Group(name="lab", slurm={"partition": "lab", "account": "lab-1", "qos": ""})
        )
        yield house


async def run(house: House, text: str, **more: Any) -> dict[str, str]:
    """The options that the engine gets for its first task, without those of the settings."""
    job = await house.submit(text, **more)
    await house.until(job.id, JobState.RUNNING)
    task = next(task for id, task in house.engine.machine.tasks.items() if id.startswith(f"{job.id}."))
    await house.services.jobs.stop(house.admin, job.id)
    await house.until(job.id)
    return dict(task.launch.engine_options)


def openpai(gpu: int, cell: dict[str, Any], **more: Any) -> str:
    role = {
        "dockerImage": "img",
        "resourcePerInstance": {"cpu": 2, "memoryMB": 64, "gpu": gpu},
        "commands": ["sleep 60"],
    }
    plain = {
        "protocolVersion": 2,
        "name": "j",
        "type": "job",
        "prerequisites": [{"name": "img", "type": "dockerimage", "uri": "host"}],
        "taskRoles": {"a": role},
        "defaults": {"virtualCluster": "lab"},
        "extras": {"hivedScheduler": {"taskRoles": {"a": cell}}},
        **more,
    }
    return json.dumps(plain)


async def test_a_group_gives_its_options_to_its_jobs(cluster: House) -> None:
    assert (await cluster.services.groups.get(cluster.admin, "lab")).slurm == {"partition": "lab", "account": "lab-1"}
    assert await run(cluster, f"{SLEEP}group: lab\n") == {"partition": "lab", "account": "lab-1"}
    assert await run(cluster, SLEEP) == {}
    await cluster.services.groups.change(cluster.admin, "lab", GroupChange(slurm={"constraint": "ib"}))
    assert await run(cluster, f"{SLEEP}group: lab\n") == {"constraint": "ib"}


async def test_an_instance_type_overrides_the_group_and_a_job_its_type(cluster: House) -> None:
    typed = f"{SLEEP}group: lab\ninstance_type: a100\n"
    expected = {"partition": "gpu", "account": "lab-1", "constraint": "ib", "gres": "gpu:a100:1,nvme:1"}
    assert await run(cluster, typed) == expected
    job = f"{typed}resources: {{gpu: 2}}\nslurm: {{partition: job, qos: job}}\nroles: {{a: {{slurm: {{qos: role}}}}}}\n"
    gres = "gpu:a100:2,nvme:1"
    assert await run(cluster, job) == {**expected, "partition": "job", "qos": "role", "gres": gres}


async def test_a_form_of_primehub_gets_the_options_of_its_instance_type(cluster: House) -> None:
    form = {"displayName": "train", "instanceType": "a100", "image": "host", "command": "sleep 60", "groupId": "lab"}
    options = await run(cluster, json.dumps(form))
    assert (options["partition"], options["gres"]) == ("gpu", "gpu:a100:1,nvme:1")


@pytest.mark.parametrize(
    ("gpu", "cell", "gres"),
    [
        (2, {"skuType": "a100", "skuNum": 2}, "gpu:a100:2,nvme:2"),
        (3, {"skuType": "a100"}, "gpu:a100:3,nvme:3"),  # as many as its resources need
        (0, {"skuType": "a100"}, "nvme:1"),
        (1, {"skuType": "a100", "skuNum": 0}, "gpu:a100:1,nvme:1"),
        (1, {"skuType": "a100", "skuNum": "2"}, "gpu:a100:1,nvme:1"),
        (1, {}, None),
    ],
)
async def test_an_openpai_file_gets_the_options_of_its_skus(
    cluster: House, gpu: int, cell: dict[str, Any], gres: str | None
) -> None:
    options = await run(cluster, openpai(gpu, cell))
    assert options.get("gres") == gres
    assert (options["partition"], options["account"]) == ("gpu" if cell else "lab", "lab-1")


async def test_a_rerun_gets_the_options_as_they_are_now(cluster: House) -> None:
    job = await cluster.submit(f"{SLEEP}instance_type: a100\n")
    change = InstanceTypeChange(slurm={"partition": "new"})
    assert (await cluster.services.instance_types.change(cluster.admin, "a100", change)).slurm == {"partition": "new"}
    again = (await cluster.services.jobs.rerun(cluster.admin, job.id)).summary
    details = [await cluster.services.jobs.load_detail(cluster.admin, id) for id in (job.id, again.id)]
    old, new = (detail.job.roles[0].type_options["slurm"] for detail in details)
    assert (old["partition"], new) == ("gpu", {"partition": "new"})
    assert "partition" not in await cluster.services.jobs.export_yaml(cluster.admin, job.id)
    await cluster.services.instance_types.change(cluster.admin, "a100", InstanceTypeChange(slurm={}))
    again = (await cluster.services.jobs.rerun(cluster.admin, job.id)).summary
    assert (await cluster.services.jobs.load_detail(cluster.admin, again.id)).job.roles[0].type_options == {}


async def test_a_plan_tells_the_options_and_their_sources(cluster: House) -> None:
    text = f"{SLEEP}group: lab\ninstance_type: a100\nslurm: {{constraint: eth}}\n"
    planned = await cluster.services.jobs.plan(cluster.admin, text)
    expected = [
        ("partition", "gpu", "instance-type"),
        ("account", "lab-1", "group"),
        ("qos", "normal", "setting"),
        ("constraint", "eth", "job"),
        ("gres", "gpu:a100:1,nvme:1", "instance-type"),
    ]
    assert [(each.name, each.value, each.source.value) for each in planned.slurm] == expected
    job = await cluster.submit(text)
    await cluster.until(job.id, JobState.RUNNING)
    assert (await cluster.services.jobs.get(cluster.admin, job.id)).slurm == planned.slurm
    await cluster.services.jobs.stop(cluster.admin, job.id)
    await cluster.until(job.id)
    assert (await cluster.services.jobs.get(cluster.admin, job.id)).slurm == ()


async def test_other_engines_get_none(tmp_path: Path) -> None:
    async with open_house(tmp_path / "home", engine=FakeEngine(name="docker", nodes=NODES)) as house:
        await house.services.instance_types.create(house.admin, A100)
        await house.services.groups.change(house.admin, "default", GroupChange(slurm={"partition": "lab"}))
        text = f"{SLEEP}instance_type: a100\n"
        assert await run(house, text) == {}
        assert (await house.services.jobs.plan(house.admin, text)).slurm == ()


async def test_gpus_of_gres_count_as_the_tasks_own(cluster: House) -> None:
    planned = await cluster.services.jobs.plan(cluster.admin, f"{SLEEP}slurm: {{gres: 'gpu:h100:2'}}\n")
    assert planned.job.roles[0].resources.gpu == 2
    with pytest.raises(InvalidJob, match="requests 2 GPUs in gres, but the task has 1"):
        await cluster.services.jobs.plan(cluster.admin, f"{SLEEP}instance_type: a100\nslurm: {{gres: 'gpu:h100:2'}}\n")


@pytest.mark.parametrize(
    ("options", "field"),
    [({"gres": "gpu:1"}, "slurm.gres"), ({"partition": "-x"}, "slurm.partition"), ({"nodes": "9"}, "slurm.nodes")],
)
async def test_what_a_group_cannot_have(cluster: House, options: dict[str, str], field: str) -> None:
    groups = cluster.services.groups
    for call in (
        groups.create(cluster.admin, Group(name="red", slurm=options)),
        groups.change(cluster.admin, "lab", GroupChange(slurm=options)),
    ):
        with pytest.raises(UserError) as caught:
            await call
        assert caught.value.field == field


async def test_admins_of_a_group_cannot_choose_its_partition(cluster: House) -> None:
    head = Actor(name="head", groups={"lab": True})
    with pytest.raises(Forbidden):
        await cluster.services.groups.change(head, "lab", GroupChange(slurm={"partition": "gpu"}))


async def test_jobs_of_users_set_only_the_options_that_admins_allow(tmp_path: Path) -> None:
    settings = {"slurm": {"folder": "/shared", "job_options": ["partition", "constraint"]}}
    engine = FakeEngine(name="slurm", nodes=NODES)
    async with open_house(tmp_path / "home", settings=settings, engine=engine) as house:
        user = await house.user("bob", "default")
        roles = "roles: {a: {command: 'true', slurm: {qos: high}}}\n"
        refused = "name: j\nslurm: {partition: gpu, account: other}\n" + roles
        with pytest.raises(InvalidJob) as caught:
            await house.submit(refused, actor=user)
        assert [problem.field for problem in caught.value.problems] == ["slurm.account", "slurm.qos"]
        assert "jobs cannot set account on this server" in str(caught.value)
        allowed = await house.submit(SLEEP + "slurm: {partition: gpu}\n", actor=user)
        await house.until(allowed.id, JobState.RUNNING)
        assert await run(house, SLEEP + "slurm: {account: other}\n") == {"account": "other"}  # of an admin
