"""Whoever asks, their groups, what these can use, and what group admins change."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from holdfast.core.catalogue import ImageAlias, ImageKind, InstanceType, Secret, SecretKind
from holdfast.core.job import GIB
from holdfast.core.records import Dataset
from holdfast.core.scheduling.placement import Quota
from holdfast.core.states import JobState
from holdfast.services.people.groups import GroupChange

from .hub import Caller, Hub

pytestmark = pytest.mark.anyio

UPDATE = """
mutation ($data: GroupUpdateInput!, $where: GroupWhereUniqueInput!) {
  updateGroup(data: $data, where: $where) {
    id admins users { id } jobDefaultActiveDeadlineSeconds
    mlflow { trackingUri uiUrl trackingEnvs { name value } artifactEnvs { name value } }
  }
}
"""


async def groups(caller: Caller, fields: str, kind: str = "effectiveGroups") -> dict[str, Any]:
    found = await caller.data(f"{{ me {{ {kind} {{ id {fields} }} }} }}")
    return {group.pop("id"): group for group in found[kind]}


async def change(caller: Caller, **data: Any) -> Any:
    return await caller.data(UPDATE, where={"id": "red"}, data=data)


async def test_me(hub: Hub) -> None:
    fields = "id username firstName lastName email isAdmin"
    assert await hub.ann.data(f"query {{ me {{ {fields} }} }}") == {
        "id": "ann",
        "username": "ann",
        "firstName": "",
        "lastName": "",
        "email": "",
        "isAdmin": False,
    }
    assert (await hub.admin.data("{ me { isAdmin } }"))["isAdmin"]


async def test_everyone_is_a_group_but_none_to_work_in(hub: Hub) -> None:
    assert list(await groups(hub.ann, "name", "groups")) == ["everyone", "red"]
    assert list(await groups(hub.ann, "name")) == ["red"]
    assert next(iter(await groups(hub.admin, "name"))) == "default"  # one's own first
    assert set(await groups(hub.admin, "name")) == {"default", "red", "blue"}


async def test_quotas_are_in_gigabytes_and_null_without_bound(hub: Hub) -> None:
    change = GroupChange(quota=Quota(cpu=8, memory=16 * GIB), user_quota=Quota(cpu=0.5, gpu=0))
    await hub.house.services.groups.change(hub.house.admin, "red", change)
    fields = "displayName quotaCpu quotaGpu quotaMemory projectQuotaCpu projectQuotaGpu projectQuotaMemory"
    assert (await groups(hub.ann, fields))["red"] == {
        "displayName": "red",
        "quotaCpu": 0.5,
        "quotaGpu": 0,
        "quotaMemory": None,
        "projectQuotaCpu": 8,
        "projectQuotaGpu": None,
        "projectQuotaMemory": 16,
    }


async def test_members_see_each_other(hub: Hub) -> None:
    await hub.house.user("eve", "red")
    await hub.house.services.groups.set_member(hub.house.admin, "red", "eve", admin=True)
    found = (await groups(hub.ann, "admins users { id username email }"))["red"]
    assert found["admins"] == "eve"
    assert [user["username"] for user in found["users"]] == ["ann", "eve"]
    assert (await groups(hub.bob, "admins"))["blue"] == {"admins": ""}


async def test_who_may_see_whom(hub: Hub) -> None:
    query = "query ($where: UserWhereUniqueInput!) { user(where: $where) { username } }"
    await hub.house.user("eve", "red")

    async def sees(caller: Caller, name: str) -> bool:
        answered = await caller.ask(query, where={"id": name})
        if "errors" not in answered:
            return bool(answered["data"]["user"] == {"username": name})
        assert answered["errors"][0]["message"] == f"User {name} not found"
        assert answered["errors"][0]["extensions"] == {"code": "USER_NOT_EXIST"}
        return False

    assert await sees(hub.ann, "eve")
    assert not await sees(hub.ann, "bob")
    assert not await sees(hub.ann, "nobody")
    assert await sees(hub.admin, "bob")
    await hub.house.services.groups.set_member(hub.house.admin, "red", "ann", admin=True)
    assert await sees(hub.ann, "bob")
    assert not await sees(hub.ann, "nobody")
    assert await hub.admin.data(query, where={"id": "nobody"}) is None


async def test_one_group(hub: Hub) -> None:
    query = "query ($where: GroupWhereUniqueInput!) { group(where: $where) { id name enabledSharedVolume } }"
    assert (await hub.ann.data(query, where={"id": "red"}))["name"] == "red"
    assert (await hub.ann.data(query, where={"id": "everyone"}))["name"] == "everyone"
    for name in ("blue", "nope"):
        assert await hub.ann.refused(query, where={"id": name}) == ("NOT_AUTH", "user not auth")
    assert await hub.admin.data(query, where={"id": "nope"}) is None
    assert (await hub.admin.data(query, where={"id": "blue"}))["name"] == "blue"


async def test_what_a_group_has_in_use(hub: Hub) -> None:
    ids = [await hub.ann.submit(command="sleep 1000") for _ in range(2)]
    for id in ids:
        await hub.house.until(id, JobState.RUNNING)
    details = "resourceDetails { details { name type user instanceType cpu mem gpu } }"
    usual = {"type": "job", "user": "ann", "instanceType": "cpu-1", "cpu": 1, "mem": 2, "gpu": 0}
    assert (await groups(hub.ann, f"resourceStatus {{ cpuUsage memUsage gpuUsage }} {details}"))["red"] == {
        "resourceStatus": {"cpuUsage": 2, "memUsage": 4, "gpuUsage": 0},
        "resourceDetails": {"details": [{"name": id, **usual} for id in ids]},
    }
    await hub.ann.data(
        "mutation ($where: PhJobWhereUniqueInput!) { cancelPhJob(where: $where) { id } }", where={"id": ids[0]}
    )
    await hub.house.until(ids[0])
    assert (await groups(hub.ann, details))["red"] == {"resourceDetails": {"details": [{"name": ids[1], **usual}]}}


# -- what a group can use


async def test_instance_types_of_a_group_and_of_everyone(hub: Hub) -> None:
    types = hub.house.services.instance_types
    big = InstanceType(name="big", cpu=16, memory=64 * GIB, gpu=2, cpu_request=8, everyone=False, groups=("red",))
    await types.create(hub.house.admin, big)
    await types.create(hub.house.admin, InstanceType(name="blues", memory=GIB, everyone=False, groups=("blue",)))
    fields = "name displayName cpuLimit cpuRequest memoryLimit memoryRequest gpuLimit global tolerations { key }"
    found = (await groups(hub.ann, f"instanceTypes {{ {fields} nodeSelector spec }}"))["red"]["instanceTypes"]
    shown = {each["name"]: each for each in found}
    assert set(shown) == {"big", "cpu-1", "cpu-2", "gpu-1", "gpu-2"}
    spec = shown["big"].pop("spec")
    assert shown["big"] == {
        "name": "big",
        "displayName": "big",
        "cpuLimit": 16,
        "cpuRequest": 8,
        "memoryLimit": 64,
        "memoryRequest": None,
        "gpuLimit": 2,
        "global": False,
        "tolerations": [],
        "nodeSelector": {},
    }
    assert (spec["limits.cpu"], spec["limits.memory"], spec["limits.gpu"], spec["requests.cpu"]) == (16, "64G", 2, 8)
    assert [each["name"] for each in (await _linked(hub, "red", "instanceTypes"))] == ["big"]
    assert "big" not in [each["name"] for each in (await _linked(hub, "everyone", "instanceTypes"))]


async def test_images_of_a_group_and_of_everyone(hub: Hub) -> None:
    aliases = hub.house.services.image_aliases
    tf = ImageAlias(name="tf", url="tf:2", gpu_url="tf:2-gpu", groups=("red",), pull_secret=None)
    await aliases.create(hub.house.admin, tf)
    await aliases.create(hub.house.admin, ImageAlias(name="own", url="own:1", owner="red", kind=ImageKind.CPU))
    await aliases.create(hub.house.admin, ImageAlias(name="blues", url="b:1", groups=("blue",)))
    fields = "id name displayName description useImagePullSecret spec isReady type url urlForGpu groupName"
    found = (await groups(hub.ann, f"images {{ {fields} groups {{ id }} }}"))["red"]["images"]
    shown = {each["name"]: each for each in found}
    assert set(shown) == {"host", "own", "tf"}
    assert shown["own"]["groupName"] == "red"
    assert shown["tf"] == {
        "id": "tf",
        "name": "tf",
        "displayName": "tf",
        "description": "",
        "useImagePullSecret": None,
        "isReady": True,
        "type": "both",
        "url": "tf:2",
        "urlForGpu": "tf:2-gpu",
        "groupName": None,
        "groups": [{"id": "red"}],
        "spec": {
            "displayName": "tf",
            "description": "",
            "type": "both",
            "url": "tf:2",
            "urlForGpu": "tf:2-gpu",
            "groupName": None,
            "pullSecret": None,
        },
    }
    assert {each["name"] for each in (await _linked(hub, "red", "images"))} == {"own", "tf"}


async def test_volumes_of_a_group_and_of_everyone(hub: Hub, tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    datasets, path = hub.house.services.datasets, str(tmp_path / "data")
    await datasets.create(hub.house.admin, Dataset(name="mnist", path=path, everyone=True))
    writable = Dataset(name="ours", path=path, groups=("red",), writable_groups=("red",))
    await datasets.create(hub.house.admin, writable)
    await datasets.create(hub.house.admin, Dataset(name="theirs", path=path, groups=("blue",)))
    found = (await groups(hub.ann, "datasets { id name displayName description type writable }"))["red"]["datasets"]
    assert {each["name"]: (each["type"], each["writable"]) for each in found} == {
        "mnist": ("hostPath", False),
        "ours": ("hostPath", True),
    }
    assert [each["name"] for each in (await _linked(hub, "red", "datasets"))] == ["ours"]


async def _linked(hub: Hub, group: str, what: str) -> list[Any]:
    """In the group itself, without everyone's."""
    query = f"query ($where: GroupWhereUniqueInput!) {{ group(where: $where) {{ {what} {{ name }} }} }}"
    return list((await hub.ann.data(query, where={"id": group}))[what])


async def test_secrets_for_images_by_name_alone(hub: Hub) -> None:
    secrets = hub.house.services.secrets
    docker = Secret(name="docker", kind=SecretKind.REGISTRY, registry_host="r.example", username="me")
    await secrets.create(hub.house.admin, docker, "top-secret")
    await secrets.create(hub.house.admin, Secret(name="key"), "top-secret")
    query = "{ secrets(where: { ifDockerConfigJson: true }) { id name type password } }"
    shown = [{"id": "image-docker", "name": "docker", "type": "kubernetes", "password": None}]
    assert await hub.ann.data(query) == shown
    assert await hub.admin.data(query) == shown
    everything = await hub.admin.data("{ secrets { id type secret } }")
    assert {"id": "gitsync-secret-key", "type": "opaque", "secret": None} in everything


# -- what admins of a group change


async def test_members_come_and_go(hub: Hub) -> None:
    await hub.house.services.groups.set_member(hub.house.admin, "red", "ann", admin=True)
    await hub.house.user("eve", "blue")
    changed = await change(hub.ann, users={"connect": [{"id": "eve"}]}, admins="ann")
    assert (changed["admins"], [user["id"] for user in changed["users"]]) == ("ann", ["ann", "eve"])
    assert (await change(hub.ann, admins="ann,eve"))["admins"] == "ann,eve"
    changed = await change(hub.ann, users={"disconnect": [{"id": "eve"}]}, admins="ann")
    assert (changed["admins"], [user["id"] for user in changed["users"]]) == ("ann", ["ann"])
    code, message = await hub.ann.refused(UPDATE, where={"id": "red"}, data={"admins": "ann,bob"})
    assert code == "REQUEST_BODY_INVALID"
    assert "bob" in message
    code, _ = await hub.ann.refused(UPDATE, where={"id": "red"}, data={"users": {"connect": [{"id": "nobody"}]}})
    assert code == "RESOURCE_NOT_FOUND"


async def test_the_time_limit_and_mlflow_of_a_group(hub: Hub) -> None:
    await hub.house.services.groups.set_member(hub.house.admin, "red", "ann", admin=True)
    assert (await change(hub.ann, jobDefaultActiveDeadlineSeconds=60))["jobDefaultActiveDeadlineSeconds"] == 60
    given = {
        "trackingUri": "http://mlflow:5000",
        "uiUrl": "http://mlflow/ui",
        "trackingEnvs": [{"name": "A", "value": "1"}],
        "artifactEnvs": [{"name": "B", "value": "2"}],
    }
    assert (await change(hub.ann, **given))["mlflow"] == given
    one = await change(hub.ann, uiUrl="http://other")
    assert one["mlflow"] == {**given, "uiUrl": "http://other"}
    query = 'query { mlflow(where: {group: "red"}) { trackingUri } }'
    assert await hub.ann.data(query) == {"trackingUri": "http://mlflow:5000"}
    assert await hub.bob.data(query) is None
    assert (await change(hub.ann, trackingUri="", uiUrl="", trackingEnvs=[], artifactEnvs=[]))["mlflow"] is None


async def test_members_who_are_no_admins_change_nothing(hub: Hub) -> None:
    for caller in (hub.ann, hub.bob):
        refused = await caller.refused(UPDATE, where={"id": "red"}, data={"jobDefaultActiveDeadlineSeconds": 60})
        assert refused == ("NOT_AUTH", "user not auth")


# -- the rest


async def test_the_time_zone(hub: Hub) -> None:
    found = await hub.ann.data("{ timezone { name offset } }")
    assert found["name"]
    assert -12 <= found["offset"] <= 14


@pytest.mark.parametrize(
    ("query", "empty"),
    [
        ("{ phApplicationsConnection(first: 12) { edges { cursor } } }", {"edges": []}),
        ("{ phAppTemplates { id } }", []),
        ("{ phDeployments { id } }", []),
        ('{ models(where: {group: "red"}) { name } }', []),
        ('{ mlflow(where: {group: "red"}) { trackingUri } }', None),
    ],
)
async def test_what_there_is_none_of_is_empty(hub: Hub, query: str, empty: Any) -> None:
    assert await hub.ann.data(query) == empty
