"""What OpenPAI's files may ask of SKUs, and the order in which jobs are refused."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from holdfast.core.access import Actor
from holdfast.core.errors import InvalidJob, NotFound
from holdfast.core.job import GIB, MIB, Resources
from holdfast.core.records import Group
from holdfast.core.scheduling.placement import Node, Quota
from holdfast.services.catalogue.instance_types import build_seeded_types
from holdfast.services.catalogue.skus import Sku, compute_sku_capacity, count_needed_skus
from holdfast.services.errors import DatasetNotFound, NameTaken, NotInGroup
from holdfast.services.people.groups import GroupChange
from holdfast.settings import Settings
from tests.fake_engine import FakeEngine

from .house import House, open_house

pytestmark = pytest.mark.anyio

TYPES = {"small": {"cpu": 1, "memory": GIB}, "gpu": {"cpu": 2, "memory": 4 * GIB, "gpu": 1}}
NODES = (
    Node(name="one", cpu=4.0, memory=8 * GIB, gpus=(0, 1)),
    Node(name="two", cpu=4.0, memory=8 * GIB),
)  # 8 small ones, 2 with a GPU


@pytest.fixture
async def cluster(tmp_path: Path) -> AsyncIterator[House]:
    settings = {"jobs": {"instance_types": TYPES}}
    async with open_house(tmp_path / "home", settings=settings, engine=FakeEngine(nodes=NODES)) as opened:
        yield opened


def job(cells: dict[str, Any], *, cpu: int = 1, memory: int = 64, gpu: int = 0, instances: int = 1, **more: Any) -> str:
    role = {
        "dockerImage": "img",
        "instances": instances,
        "resourcePerInstance": {"cpu": cpu, "memoryMB": memory, "gpu": gpu},
        "commands": ["sleep 60"],
    }
    scheduler = {"taskRoles": cells, **more.pop("scheduler", {})}
    extras = {"hivedScheduler": scheduler, **more.pop("extras", {})}
    plain = {
        "protocolVersion": 2,
        "name": "j",
        "type": "job",
        "prerequisites": [{"name": "img", "type": "dockerimage", "uri": "host"}],
        "taskRoles": dict.fromkeys(cells or ["a"], role),
        "extras": extras,
        **more,
    }
    return json.dumps(plain)


async def refused(house: House, text: str, actor: Actor | None = None) -> list[tuple[str, str]]:
    with pytest.raises(InvalidJob) as caught:
        await house.services.jobs.plan(actor or house.admin, text)
    prefix = "extras.hivedScheduler.taskRoles."
    return [(problem.field.removeprefix(prefix), problem.message) for problem in caught.value.problems]


async def test_a_job_that_fits(cluster: House) -> None:
    await cluster.submit(job({"a": {"skuType": "small"}}, instances=8))
    await cluster.submit(job({"a": {"skuType": "gpu"}}, gpu=1, instances=2))
    await cluster.submit(job({"a": {"skuType": None, "pinnedCellId": None}}))
    await cluster.submit(job({}))


async def test_an_unknown_type(cluster: House) -> None:
    text = job({"a": {"skuType": "smal"}, "b": {"skuType": "V100"}})
    assert await refused(cluster, text) == [
        ("a.skuType", "SKU type 'smal' not found"),
        ("b.skuType", "SKU type 'V100' not found"),
    ]


async def test_no_cells_are_pinned_here(cluster: House) -> None:
    ((field, message),) = await refused(cluster, job({"a": {"pinnedCellId": "mine"}}))
    assert field == "a.pinnedCellId"
    assert "this server has no pinned cells" in message


async def test_both_of_them_and_unknown_roles_are_the_readers_to_refuse(cluster: House) -> None:
    assert await refused(cluster, job({"a": {"skuType": "small", "pinnedCellId": "x"}}))
    assert await refused(cluster, job({"a": {}}, extras={"hivedScheduler": {"taskRoles": {"b": {}}}}))


async def test_a_gpu_of_a_type_that_has_none(cluster: House) -> None:
    ((field, message),) = await refused(cluster, job({"a": {"skuType": "small"}}, gpu=1))
    assert field == "a.skuType"
    assert message == "a requests 1 GPU, but small has none"


async def test_roles_of_an_affinity_group_agree(cluster: House) -> None:
    same = {"skuType": "small", "affinityGroupName": "g"}
    await cluster.submit(job({"a": same, "b": same}))
    torn = job({"a": same, "b": {"skuType": "gpu", "affinityGroupName": "g"}, "c": {"affinityGroupName": "g"}})
    assert [field for field, _ in await refused(cluster, torn)] == ["b.affinityGroupName", "c.affinityGroupName"]


async def test_a_gang_larger_than_the_cluster(cluster: House) -> None:
    message = "Job requests 9 SKUs, exceeds maximum 8 SKUs in VC default."
    assert await refused(cluster, job({"a": {"skuType": "small"}}, instances=9)) == [("a.skuType", message)]
    two = job({"a": {"skuType": "small"}, "b": {"skuType": "small"}}, instances=5)
    assert (await refused(cluster, two))[0][1] == "Job requests 10 SKUs, exceeds maximum 8 SKUs in VC default."
    by_memory = job({"a": {"skuType": "small"}}, memory=2049, instances=3)
    assert (await refused(cluster, by_memory))[0][1] == "Job requests 9 SKUs, exceeds maximum 8 SKUs in VC default."


async def test_size_does_not_matter_to_those_that_need_not_run_at_once(cluster: House) -> None:
    cells = {"a": {"skuType": "small"}}
    await cluster.submit(job(cells, instances=9, scheduler={"jobPriorityClass": "oppo"}))
    await cluster.submit(job(cells, instances=9, extras={"gangAllocation": False}))


async def test_a_groups_quota_is_its_size(cluster: House) -> None:
    await cluster.services.groups.change(cluster.admin, "default", GroupChange(quota=Quota(cpu=2.5, gpu=0)))
    message = "Job requests 3 SKUs, exceeds maximum 2 SKUs in VC default."
    assert await refused(cluster, job({"a": {"skuType": "small"}}, instances=3)) == [("a.skuType", message)]
    none = await refused(cluster, job({"a": {"skuType": "gpu"}}))
    assert none == [("a.skuType", "SKU type gpu is not available in VC default.")]


async def test_types_of_a_group(cluster: House) -> None:
    skus = cluster.services.skus
    assert await skus.load_sku_types(cluster.admin) == {"small": Sku(1, GIB, 0), "gpu": Sku(2, 4 * GIB, 1)}
    await cluster.services.groups.create(cluster.admin, Group(name="red", quota=Quota(gpu=0)))
    assert set(await skus.load_sku_types(cluster.admin, "red")) == {"small"}
    assert set(await skus.load_sku_types(Actor(name="ann"), "red")) == {"small", "gpu"}  # the quota is not hers to know


async def test_other_dialects_have_no_skus(cluster: House) -> None:
    clone = {"openpai": {"config": {"extras": {"hivedScheduler": {"taskRoles": {"main": {"skuType": "V100"}}}}}}}
    await cluster.submit(json.dumps({"name": "j", "command": "sleep 60", "extras": clone}))


@pytest.mark.parametrize("settings", [{}, {"jobs": {"time_limit": 9.0}}, {"jobs": {"instance_types": {}}}])
async def test_nothing_is_checked_where_nobody_has_named_types(tmp_path: Path, settings: dict[str, Any]) -> None:
    async with open_house(tmp_path / "home", settings=settings) as house:
        await house.submit(job({"a": {"skuType": "V100"}, "b": {"pinnedCellId": "cell", "affinityGroupName": "g"}}))


def test_counting() -> None:
    sku = Sku(cpu=2, memory=GIB, gpu=1)
    assert count_needed_skus(Resources(cpu=0.5, memory=MIB, gpu=0), sku) == 1
    assert count_needed_skus(Resources(cpu=2.0, memory=GIB, gpu=1), sku) == 1
    assert count_needed_skus(Resources(cpu=2.5, memory=GIB, gpu=1), sku) == 2
    assert count_needed_skus(Resources(cpu=1, memory=3 * GIB + 1, gpu=1), sku) == 4
    assert count_needed_skus(Resources(cpu=1, memory=GIB, gpu=5), sku) == 5
    assert count_needed_skus(Resources(cpu=0.3, memory=GIB, gpu=0), Sku(cpu=0.1, memory=GIB, gpu=0)) == 3
    assert compute_sku_capacity(sku, NODES) == 2
    assert compute_sku_capacity(Sku(cpu=3, memory=GIB, gpu=0), NODES) == 2  # none of them spans two machines
    assert compute_sku_capacity(sku, ()) == 0
    assert {type.name for type in build_seeded_types(Settings())} == {"cpu-1", "cpu-2", "gpu-1", "gpu-2"}


async def test_refusals_come_in_their_order(cluster: House) -> None:
    """A job with everything wrong, and with one thing after the other put right."""
    ann = await cluster.user("ann", "default")
    await cluster.submit(job({}, name="taken"), ann)
    submit = cluster.services.jobs.submit
    wrong: dict[str, Any] = {
        "name": "taken",
        "extras": {"storages": [{"name": "none"}]},
        "defaults": {"virtualCluster": "nowhere"},
    }
    small = {"a": {"skuType": "small"}}
    for text in ("{", job({"a": {"skuType": "V100"}}, **wrong), job(small, instances=9, **wrong)):
        with pytest.raises(InvalidJob):
            await submit(ann, text, unique=True)
    with pytest.raises(NameTaken):
        await submit(ann, job(small, **wrong), unique=True)
    wrong["name"] = "new"
    with pytest.raises(NotInGroup) as caught:
        await submit(ann, job(small, **wrong), unique=True)
    assert caught.value.group == "nowhere"
    del wrong["defaults"]
    with pytest.raises(DatasetNotFound, match=r"Storage none is not found\."):
        await submit(ann, job(small, **wrong), unique=True)
    del wrong["extras"]
    await submit(ann, job(small, **wrong), unique=True)


async def test_a_group_that_is_not_there(cluster: House) -> None:
    """Old clients are told the same as of a group they are not in."""
    with pytest.raises(NotInGroup, match="Group nowhere not found"):
        await cluster.submit(job({}, defaults={"virtualCluster": "nowhere"}))
    with pytest.raises(NotFound, match="Group nowhere not found"):
        await cluster.submit("name: j\ncommand: a\ngroup: nowhere\n")


async def test_names_are_taken_by_user(cluster: House) -> None:
    ann, bob = await cluster.user("ann", "default"), await cluster.user("bob", "default")
    submit = cluster.services.jobs.submit
    await submit(ann, job({}), unique=True)
    await submit(bob, job({}), unique=True)
    with pytest.raises(NameTaken):
        await submit(ann, job({}), unique=True)
    await submit(ann, job({}))


async def test_an_image_without_a_tag_is_the_latest(tmp_path: Path) -> None:
    engine = FakeEngine(images=("host", "torch", "tf:latest"))
    async with open_house(tmp_path / "home", engine=engine) as house:
        for image, known in {"torch": True, "torch:latest": True, "tf": True, "tf:1": False}.items():
            made = await house.services.jobs.submit(house.admin, f"name: a\ncommand: b\nimage: {image}\n")
            assert bool(made.warnings) is not known, image
