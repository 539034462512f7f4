"""Groups, through OpenPAI's addresses."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import httpx
import pytest

from holdfast.core.records import Dataset

from .pai import Pai, open_pai, refused

pytestmark = pytest.mark.anyio


def done(response: httpx.Response, status: int = 201) -> None:
    assert response.status_code == status, response.text
    assert set(response.json()) == {"message"}


async def add_dataset(pai: Pai, name: str, **more: Any) -> None:
    folder = pai.house.home.parent / f"data-{name}"
    folder.mkdir()
    await pai.house.services.datasets.create(pai.house.admin, Dataset(name=name, path=str(folder), **more))


def acls(group: str, *storages: str) -> dict[str, Any]:
    return {"admin": False, "virtualClusters": [group], "storageConfigs": list(storages)}


async def test_an_empty_external_name_stays_empty(pai: Pai) -> None:
    done(await pai.admin.post("/v2/groups", json={"groupname": "research", "description": "", "externalName": ""}))
    shown = (await pai.admin.get("/v2/groups/research")).json()
    assert (shown["externalName"], shown["extension"]) == ("", {"acls": acls("research")})


async def test_one_sees_ones_own_groups(pai: Pai) -> None:
    await pai.house.add_group("research")
    default = {
        "groupname": "default",
        "description": "Everybody",
        "externalName": "",
        "extension": {"acls": acls("default")},
    }
    for path in ("/v2/groups", "/v2/group"):
        assert (await pai.user.get(path)).json() == [default]
        assert [group["groupname"] for group in (await pai.admin.get(path)).json()] == ["default", "research"]
    assert (await pai.user.get("/v2/groups/default")).json() == default
    for client, name in ((pai.user, "research"), (pai.admin, "nowhere")):
        refused(await client.get(f"/v2/groups/{name}"), 400, "NoGroupError", f"Group {name} is not found.")


async def test_all_see_all_where_all_read_all(tmp_path: Path) -> None:
    async with open_pai(tmp_path / "home", {"access": {"reading": "users"}}) as pai:
        await pai.house.add_group("research")
        assert (await pai.user.get("/v2/groups/research")).status_code == 200
        assert len((await pai.user.get("/v2/groups")).json()) == 2


async def test_make_and_remove_a_group(pai: Pai) -> None:
    await add_dataset(pai, "corpus")
    body = {
        "groupname": "research",
        "description": "Those who search",
        "externalName": "CN=research",
        "extension": {"acls": acls("research", "corpus"), "colour": "blue"},
    }
    done(await pai.admin.post("/v2/groups", json=body))
    assert (await pai.admin.get("/v2/groups/research")).json() == body
    refused(await pai.admin.post("/v2/groups", json=body), 409, "ConflictVcError")
    done(await pai.admin.delete("/v2/groups/research"), 200)
    refused(await pai.admin.delete("/v2/groups/research"), 404, "NoGroupError", "Group research is not found.")
    refused(await pai.admin.delete("/v2/groups/default"), 403, "ForbiddenUserError")


@pytest.mark.parametrize(
    ("body", "code"),
    [
        ({}, "InvalidParametersError"),
        ({"groupname": "a b"}, "InvalidParametersError"),
        ({"groupname": "g", "description": 3}, "InvalidParametersError"),
        ({"groupname": "g", "extension": {"a": "x" * 70_000}}, "InvalidParametersError"),
        ({"groupname": "g", "extension": {"acls": {"admin": True}}}, "InvalidParametersError"),
        ({"groupname": "g", "extension": {"acls": {"virtualClusters": ["default"]}}}, "InvalidParametersError"),
        ({"groupname": "g", "extension": {"acls": {"storageConfigs": ["nothing"]}}}, "NoStorageError"),
        ({"groupname": "g", "extension": {"acls": {"more": 1}}}, "InvalidParametersError"),
    ],
)
async def test_groups_that_cannot_be_made(pai: Pai, body: dict[str, Any], code: str) -> None:
    refused(await pai.admin.post("/v2/groups", json=body), 400, code)
    assert len((await pai.admin.get("/v2/groups")).json()) == 1


async def test_change_a_group(pai: Pai) -> None:
    await pai.house.add_group("research")
    data: dict[str, Any] = {"groupname": "research", "description": "One", "externalName": "", "extension": {"a": 1}}
    done(await pai.admin.put("/v2/groups", json={"data": data}))
    part = {"groupname": "research", "extension": {"b": 2}}
    refused(await pai.admin.put("/v2/groups", json={"data": part}), 400, "InvalidParametersError")
    done(await pai.admin.put("/v2/groups", json={"data": part, "patch": True}))
    done(await pai.admin.put("/v2/groups/research/extension", json={"extension": {"a": None}}))
    done(await pai.admin.put("/v2/groups/research/extension/c/d", json={"data": [3]}))
    done(await pai.admin.put("/v2/groups/research/extension/c/e", json={"data": 4}))
    done(await pai.admin.put("/v2/groups/research/description", json={"description": ""}))
    done(await pai.admin.put("/v2/groups/research/externalname", json={"externalName": "CN=research"}))
    assert (await pai.admin.get("/v2/groups/research")).json() == {
        "groupname": "research",
        "description": "",
        "externalName": "CN=research",
        "extension": {"b": 2, "c": {"d": [3], "e": 4}, "acls": acls("research")},
    }


async def test_changes_that_cannot_be_made(pai: Pai) -> None:
    for what in ("extension", "extension/a", "description", "externalname"):
        refused(await pai.admin.put(f"/v2/groups/default/{what}", json={}), 400, "InvalidParametersError")
        body = {"extension": {}, "data": 1, "description": "", "externalName": ""}
        refused(await pai.admin.put(f"/v2/groups/nowhere/{what}", json=body), 404, "NoGroupError")
    deep = "/".join("a" * 15)
    refused(
        await pai.admin.put(f"/v2/groups/default/extension/{deep}", json={"data": 1}), 400, "InvalidParametersError"
    )
    nowhere = {"patch": True, "data": {"groupname": "nowhere"}}
    refused(await pai.admin.put("/v2/groups", json=nowhere), 404, "NoGroupError", "Group nowhere is not found.")


async def test_grant_datasets_and_take_them_back(pai: Pai) -> None:
    for name in ("one", "two", "three"):
        await add_dataset(pai, name)

    async def shown() -> list[str]:
        group = (await pai.admin.get("/v2/groups/default")).json()
        return list(group["extension"]["acls"]["storageConfigs"])

    extension = {"acls": {"storageConfigs": ["one", "two"]}}
    done(await pai.admin.put("/v2/groups/default/extension", json={"extension": extension}))
    assert await shown() == ["one", "two"]
    assert (await pai.user.get("/v2/users/alice")).json()["storageConfig"] == ["one", "two"]
    done(await pai.admin.put("/v2/groups/default/extension/acls/storageConfigs", json={"data": ["three", "two"]}))
    assert await shown() == ["three", "two"]
    done(await pai.admin.put("/v2/groups/default/extension", json={"extension": {"other": 1}}))
    assert await shown() == ["three", "two"]


async def test_who_is_in_a_group(pai: Pai) -> None:
    found = (await pai.admin.get("/v2/groups/default/userlist")).json()
    assert found == [{"username": "admin", "clusterAdmin": True}, {"username": "alice", "clusterAdmin": False}]
    assert (await pai.admin.get("/v2/groups/nowhere/userlist")).json() == []  # as OpenPAI answers


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("POST", ""),
        ("PUT", ""),
        ("DELETE", "/default"),
        ("GET", "/default/userlist"),
        *(("PUT", f"/default/{what}") for what in ("extension", "extension/a", "description", "externalname")),
    ],
)
async def test_admins_only(pai: Pai, method: str, path: str) -> None:
    text = "Non-admin is not allow to do this operation."
    for names in ("groups", "group"):
        refused(await pai.user.request(method, f"/v2/{names}{path}"), 403, "ForbiddenUserError", text)
