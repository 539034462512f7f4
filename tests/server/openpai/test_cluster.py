"""Virtual clusters, sizes, storages and machines, through OpenPAI's addresses."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from holdfast.core.catalogue import InstanceType
from holdfast.core.job import GIB
from holdfast.core.records import Dataset
from holdfast.core.scheduling.placement import Node, Quota
from holdfast.core.states import JobState
from holdfast.services.people.groups import GroupChange
from tests.fake_engine import FakeEngine

from .pai import Pai, open_pai, refused
from .test_groups import add_dataset

pytestmark = pytest.mark.anyio

NODES = [
    Node(name="one", cpu=8, memory=32 * GIB, gpus=(0, 1), address="10.0.0.1"),
    Node(name="two", cpu=8, memory=32 * GIB, gpus=(0, 1), address="10.0.0.2"),
]
JOB = "name: j\ngroup: research\ncommand: sleep 1000\nresources: {cpu: 2, memory: 4Gi, gpu: 1}\n"


@pytest.fixture
async def machines(tmp_path: Path) -> AsyncIterator[Pai]:
    async with open_pai(tmp_path / "home", engine=FakeEngine(nodes=NODES)) as opened:
        yield opened


def amount(cpu: float, memory: int, gpu: int) -> dict[str, Any]:
    return {"cpu": cpu, "memory": memory, "gpu": gpu, "vCores": cpu, "GPUs": gpu}


async def test_virtual_clusters(machines: Pai) -> None:
    await machines.house.add_group("research")
    quota = GroupChange(quota=Quota(cpu=4, memory=8 * GIB, gpu=1))
    await machines.house.services.groups.change(machines.house.admin, "research", quota)
    job = await machines.house.submit(JOB)
    await machines.house.until(job.id, JobState.RUNNING)
    found = (await machines.admin.get("/v2/virtual-clusters")).json()
    assert found == {
        "default": {
            "capacity": 100.0,
            "usedCapacity": 0.0,
            "maxCapacity": 100.0,
            "dedicated": False,
            "resourcesUsed": amount(0, 0, 0),
            "resourcesGuaranteed": amount(16, 65536, 4),
            "resourcesTotal": amount(16, 65536, 4),
        },
        "research": {
            "capacity": 25.0,
            "usedCapacity": 25.0,
            "maxCapacity": 25.0,
            "dedicated": False,
            "resourcesUsed": amount(2, 4096, 1),
            "resourcesGuaranteed": amount(4, 8192, 1),
            "resourcesTotal": amount(4, 8192, 1),
        },
    }
    assert (await machines.admin.get("/v2/virtual-clusters/research")).json() == found["research"]
    assert list((await machines.user.get("/v2/virtual-clusters")).json()) == ["default"]
    for client, name in ((machines.user, "research"), (machines.admin, "nowhere")):
        refused(
            await client.get(f"/v2/virtual-clusters/{name}"),
            404,
            "NoVirtualClusterError",
            f"Virtual cluster {name} is not found.",
        )


async def test_virtual_clusters_of_the_first_version_count_jobs(machines: Pai) -> None:
    await machines.house.add_group("research")
    job = await machines.house.submit(JOB)
    await machines.house.until(job.id, JobState.RUNNING)
    found = (await machines.admin.get("/v1/virtual-clusters")).json()["research"]
    assert found == (await machines.admin.get("/v1/virtual-clusters/research")).json()
    counts = {key: found[key] for key in ("numActiveJobs", "numJobs", "numPendingJobs", "nodeList", "status")}
    assert counts == {
        "numActiveJobs": 1, "numJobs": 1, "numPendingJobs": 0, "nodeList": ["one", "two"], "status": "RUNNING",
    }  # fmt: skip


async def test_gpus_of_each_machine(machines: Pai) -> None:
    await machines.house.add_group("research")
    job = await machines.house.submit(JOB)
    await machines.house.until(job.id, JobState.RUNNING)
    found = (await machines.user.get("/v2/virtual-clusters?nodes")).json()
    assert sum(node["gpuUsed"] for node in found.values()) == 1
    assert {name: node["gpuTotal"] for name, node in found.items()} == {"one": 2, "two": 2}
    assert all(node["gpuUsed"] + node["gpuAvailable"] == node["gpuTotal"] for node in found.values())


async def test_without_gpus_capacities_are_of_cores(tmp_path: Path) -> None:
    async with open_pai(tmp_path / "home", engine=FakeEngine(nodes=[Node(name="n", cpu=8, memory=GIB)])) as pai:
        await pai.house.services.groups.change(pai.house.admin, "default", GroupChange(quota=Quota(cpu=2)))
        assert (await pai.user.get("/v2/virtual-clusters/default")).json()["capacity"] == 25.0


async def test_virtual_clusters_are_not_changed_here(pai: Pai) -> None:
    await pai.house.add_group("research")
    for version in ("v1", "v2"):
        for method, tail in (("PUT", ""), ("DELETE", ""), ("PUT", "/status")):
            path = f"/{version}/virtual-clusters"
            said = refused(await pai.admin.request(method, f"{path}/research{tail}"), 400, "NotImplementedError")
            assert "groups" in said
            refused(await pai.admin.request(method, f"{path}/default{tail}"), 403, "ForbiddenUserError")
            text = "Non-admin is not allow to do this operation."
            refused(await pai.user.request(method, f"{path}/research{tail}"), 403, "ForbiddenUserError", text)


async def test_sizes(pai: Pai) -> None:
    sizes = (await pai.user.get("/v2/cluster/sku-types")).json()
    assert sizes["gpu-1"] == {"cpu": 2, "memory": 7168, "gpu": 1}
    assert sizes == (await pai.user.get("/v2/virtual-clusters/default/sku-types")).json()
    assert sizes == (await pai.user.get("/v2/cluster/sku-types?vc=default")).json()
    for path in ("/v2/cluster/sku-types?vc=nowhere", "/v2/virtual-clusters/nowhere/sku-types"):
        refused(await pai.user.get(path), 404, "NoVirtualClusterError")


async def test_sizes_are_for_groups(pai: Pai) -> None:
    await pai.house.add_group("research")
    own = InstanceType(name="own", memory=2**30, everyone=False, groups=("research",))
    await pai.house.services.instance_types.create(pai.house.admin, own)
    assert "own" not in (await pai.user.get("/v2/cluster/sku-types")).json()
    assert "own" not in (await pai.admin.get("/v2/virtual-clusters/default/sku-types")).json()
    assert "own" in (await pai.admin.get("/v2/virtual-clusters/research/sku-types")).json()


# -- storages


async def test_storages(pai: Pai) -> None:
    await pai.house.add_group("research")
    await add_dataset(pai, "corpus", everyone=True, default=True, read_only=False, per_user=True)
    exported = {"server": "files", "path": "/exports/x"}
    await add_dataset(pai, "export", groups=("default",), kind="nfs", data=exported)
    await add_dataset(pai, "theirs", groups=("research",))
    corpus = {"name": "corpus", "share": False, "volumeName": "corpus", "default": True}
    export = {"name": "export", "share": True, "volumeName": "export", "default": False}
    assert (await pai.user.get("/v2/storages")).json() == {"storages": [corpus, export]}
    assert (await pai.user.get("/v2/storages?default=true")).json() == {"storages": [corpus]}
    assert len((await pai.admin.get("/v2/storages")).json()["storages"]) == 3
    fixed = {"mountOptions": []}
    one = (await pai.user.get("/v2/storages/corpus")).json()
    assert one == {**corpus, **fixed, "type": "other", "data": {}, "readOnly": False}
    two = (await pai.user.get("/v2/storages/export")).json()
    assert two == {**export, **fixed, "type": "nfs", "data": exported, "readOnly": True}
    for name in ("theirs", "nothing"):
        refused(await pai.user.get(f"/v2/storages/{name}"), 404, "NoStorageError", f"Storage {name} is not found.")


async def test_storages_of_newer_kinds(pai: Pai) -> None:
    """A volume and a checkout are folders like any other; variables are none."""
    datasets = pai.house.services.datasets
    made = Dataset(name="vol", path="", kind="volume", everyone=True, data={"size": "5"})
    await datasets.create(pai.house.admin, made)
    await datasets.create(pai.house.admin, replace(made, name="code", kind="git", data={"url": "file:///nowhere"}))
    await datasets.create(pai.house.admin, replace(made, name="env", kind="env", data={}), variables={"A": "hush"})
    listed = (await pai.user.get("/v2/storages")).json()["storages"]
    assert [storage["name"] for storage in listed] == ["code", "vol"]
    for name in ("code", "vol"):
        one = (await pai.user.get(f"/v2/storages/{name}")).json()
        assert (one["type"], one["data"], one["readOnly"]) == ("other", {}, True)
    for path in ("/v2/storages/env", "/v2/storage/config/env", "/v2/storage/server/env"):
        refused(await pai.user.get(path), 404, "NoStorageError", "Storage env is not found.")
    assert len((await pai.user.get("/v2/storage/config")).json()) == 2


async def test_a_storage_of_others_is_refused_where_all_read_all(tmp_path: Path) -> None:
    async with open_pai(tmp_path / "home", {"access": {"reading": "users"}}) as pai:
        await pai.house.add_group("research")
        await add_dataset(pai, "theirs", groups=("research",))
        text = "User alice is not allowed to access theirs."
        refused(await pai.user.get("/v2/storages/theirs"), 403, "ForbiddenUserError", text)
        refused(await pai.user.get("/v2/storages/nothing"), 404, "NoStorageError", "Storage nothing is not found.")


async def test_storages_in_the_older_shape(pai: Pai) -> None:
    await add_dataset(pai, "corpus", everyone=True)
    await add_dataset(pai, "more", everyone=True, read_only=False, default=True)
    configs = (await pai.user.get("/v2/storage/config")).json()
    assert [config["name"] for config in configs] == ["corpus", "more"]
    mount = {"mountPoint": "/mnt/more", "path": "", "server": "more", "permission": "rw"}
    more = {"name": "more", "default": True, "servers": ["more"], "mountInfos": [mount]}
    assert (await pai.user.get("/v2/storage/config?names=more,other")).json() == [more]
    assert (await pai.user.get("/v2/storage/config/more")).json() == more
    server = {"spn": "corpus", "type": "other", "data": {}, "extension": {}}
    assert (await pai.user.get("/v2/storage/server?names=corpus")).json() == [server]
    assert (await pai.user.get("/v2/storage/server/corpus")).json() == server
    for kind in ("config", "server"):
        refused(await pai.user.get(f"/v2/storage/{kind}/nothing"), 404, "NoStorageError")


# -- machines


async def test_machines_and_pods(machines: Pai) -> None:
    for version in ("v1", "v2"):
        nodes = (await machines.admin.get(f"/{version}/kubernetes/nodes")).json()
        assert nodes["kind"] == "NodeList"
        assert [node["metadata"]["name"] for node in nodes["items"]] == ["one", "two"]
        status = nodes["items"][0]["status"]
        assert status["capacity"] == {"cpu": "8000m", "memory": f"{32 * 1024 * 1024}Ki", "nvidia.com/gpu": "2"}
        assert {"type": "InternalIP", "address": "10.0.0.1"} in status["addresses"]
        pods = (await machines.admin.get(f"/{version}/kubernetes/pods?namespace=default")).json()
        assert (pods["kind"], pods["items"]) == ("PodList", [])
        for kind in ("nodes", "pods"):
            text = "Non-admin is not allow to do this operation."
            refused(await machines.user.get(f"/{version}/kubernetes/{kind}"), 403, "ForbiddenUserError", text)


async def test_there_are_no_alerts(pai: Pai) -> None:
    assert (await pai.user.get("/v2/alerts")).json() == []
    refused(await pai.guest.get("/v2/alerts"), 401, "UnauthorizedUserError")
