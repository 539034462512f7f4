"""Users, through OpenPAI's addresses."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import httpx
import pytest

from holdfast.core.errors import UserError
from holdfast.launching.keys import make_job_key_pair

from .pai import PASSWORD, Pai, open_pai, refused

pytestmark = pytest.mark.anyio

PUBLIC = make_job_key_pair(bytes(32)).public
KEY = {"title": "laptop", "value": PUBLIC, "time": 1625472000000}
OTHER_KEY = {**KEY, "value": make_job_key_pair(b"\1" * 32).public}


def done(response: httpx.Response, status: int = 201) -> str:
    assert response.status_code == status, response.text
    assert set(response.json()) == {"message"}
    return str(response.json()["message"])


async def test_one_user(pai: Pai) -> None:
    for path in ("/v2/users/alice", "/v2/user/alice", "/v1/user/alice"):
        assert (await pai.user.get(path)).json() == {
            "username": "alice",
            "grouplist": ["default"],
            "email": "",
            "extension": {},
            "admin": False,
            "virtualCluster": ["default"],
            "storageConfig": [],
        }


async def test_an_admin_has_every_virtual_cluster(pai: Pai) -> None:
    await pai.house.add_group("research")
    found = (await pai.admin.get("/v2/users/admin")).json()
    assert (found["grouplist"], found["virtualCluster"]) == (["default"], ["default", "research"])


async def test_one_sees_oneself_and_admins_see_all(pai: Pai) -> None:
    for path in ("/v2/users", "/v2/users/", "/v2/user"):
        assert [user["username"] for user in (await pai.user.get(path)).json()] == ["alice"]
        assert [user["username"] for user in (await pai.admin.get(path)).json()] == ["admin", "alice"]
    for client, name in ((pai.user, "admin"), (pai.user, "bob"), (pai.admin, "bob")):
        refused(await client.get(f"/v2/users/{name}"), 400, "NoUserError", f"User {name} is not found.")


async def test_all_see_all_where_all_read_all_but_no_secrets(tmp_path: Path) -> None:
    async with open_pai(tmp_path / "home", {"access": {"reading": "users"}}) as pai:
        secrets = {"jobSSH": {"key": "private", "pubKey": "public"}, "githubPAT": "secret"}
        keys = {"admin": [OTHER_KEY], "alice": [KEY]}
        for actor in (pai.house.admin, pai.alice):
            await pai.house.services.users.update_extension(actor, actor.name, {**secrets, "sshKeys": keys[actor.name]})
        assert [user["username"] for user in (await pai.user.get("/v2/users")).json()] == ["admin", "alice"]
        for client, mine, other in ((pai.user, "alice", "admin"), (pai.admin, "admin", "alice")):
            assert (await client.get(f"/v2/users/{mine}")).json()["extension"] == {**secrets, "sshKeys": keys[mine]}
            public = {"jobSSH": {"pubKey": "public"}, "sshKeys": keys[other]}
            assert (await client.get(f"/v2/users/{other}")).json()["extension"] == public
        refused(await pai.guest.get("/v2/users/alice"), 401, "UnauthorizedUserError")


async def test_a_key_of_another_user_is_refused(pai: Pai) -> None:
    await pai.house.services.users.update_extension(pai.house.admin, "admin", {"sshKeys": [KEY]})
    told = await pai.user.put("/v2/users/alice/extension", json={"extension": {"sshKeys": [OTHER_KEY, KEY]}})
    assert told.status_code == 409
    assert "This SSH key belongs to another user" in told.json()["message"]
    done(await pai.user.put("/v2/users/alice/extension", json={"extension": {"sshKeys": [OTHER_KEY]}}))


async def test_what_clients_keep_with_a_user_is_for_that_user(tmp_path: Path) -> None:
    kept = {
        "boundedClusters": {"far": {"token": "secret"}},
        "sshKeys": [{**KEY, "private": "secret"}],
        "jobSSH": "secret",
        "note": "mine",
    }
    async with open_pai(tmp_path / "home", {"access": {"reading": "users"}}) as pai:
        bob = await pai.new_user("bob")
        done(await pai.user.put("/v2/users/alice/extension", json={"extension": kept}))
        public = {"sshKeys": [KEY], "jobSSH": {}}
        for client, seen in ((pai.user, kept), (bob, public), (pai.admin, {**public, "note": "mine"})):
            assert (await client.get("/v2/users/alice")).json()["extension"] == seen


# -- making and removing


async def test_make_a_user(pai: Pai) -> None:
    await pai.house.add_group("research")
    body = {
        "username": "bob",
        "password": "good enough for bob",
        "email": "bob@example.com",
        "virtualCluster": ["research"],
        "extension": {"sshKeys": [KEY]},
    }
    assert done(await pai.admin.post("/v2/users", json=body)) == "User is created successfully"
    bob = await pai.login("bob", "good enough for bob")
    found = (await bob.get("/v2/users/bob")).json()
    assert found["virtualCluster"] == ["default", "research"]
    assert (found["email"], found["admin"], found["extension"]) == ("bob@example.com", False, {"sshKeys": [KEY]})
    refused(await pai.admin.post("/v2/users", json=body), 409, "ConflictUserError")


async def test_make_an_admin_by_form(pai: Pai) -> None:
    form = {"username": "root", "password": "good enough for root", "admin": "true", "virtualCluster[0]": "default"}
    done(await pai.admin.post("/v2/users", data=form))
    assert (await pai.admin.get("/v2/users/root")).json()["admin"] is True


@pytest.mark.parametrize(
    ("more", "code"),
    [
        ({"username": ""}, "InvalidParametersError"),
        ({"username": "a b"}, "InvalidParametersError"),
        ({"username": "me"}, "InvalidParametersError"),
        ({"username": "a\0b"}, "InvalidParametersError"),
        ({"password": "short"}, "InvalidParametersError"),
        ({"password": 12345678}, "InvalidParametersError"),
        ({"email": "a\nb"}, "InvalidParametersError"),
        ({"email": "a" * 321}, "InvalidParametersError"),
        ({"admin": "perhaps"}, "InvalidParametersError"),
        ({"virtualCluster": "nowhere"}, "NoVirtualClusterError"),
        ({"virtualCluster": [1]}, "InvalidParametersError"),
        ({"extension": "text"}, "InvalidParametersError"),
        ({"extension": {"a": "x" * 70_000}}, "InvalidParametersError"),
        ({"extension": {"sshKeys": [{"title": "t", "value": "one\ntwo"}]}}, "InvalidParametersError"),
    ],
)
async def test_users_that_cannot_be_made(pai: Pai, more: dict[str, Any], code: str) -> None:
    body = {"username": "bob", "password": "good enough for bob", **more}
    refused(await pai.admin.post("/v2/users", json=body), 400, code)
    assert len((await pai.admin.get("/v2/users")).json()) == 2


async def test_remove_a_user(pai: Pai) -> None:
    refused(await pai.admin.delete("/v2/users/admin"), 403, "RemoveAdminError")
    refused(await pai.admin.delete("/v2/users/bob"), 404, "NoUserError", "User bob is not found.")
    assert done(await pai.admin.delete("/v2/users/alice"), 200) == "user is removed successfully"
    refused(await pai.user.get("/v2/users/alice"), 401, "UnauthorizedUserError")


# -- changing


async def test_change_all_of_a_user(pai: Pai) -> None:
    await pai.house.add_group("research")
    data = {
        "username": "alice",
        "email": "a@example.com",
        "virtualCluster": ["research"],
        "admin": True,
        "password": "another long password",
        "extension": {"note": 1},
    }
    done(await pai.admin.put("/v2/users", json={"data": data}))
    refused(await pai.user.get("/v2/users/alice"), 401, "UnauthorizedUserError")  # a new password ends logins
    alice = await pai.login("alice", "another long password")
    found = (await alice.get("/v2/users/alice")).json()
    assert (found["email"], found["admin"], found["grouplist"]) == ("a@example.com", True, ["default", "research"])
    for missing in set(data) - {"username"}:
        part = {key: value for key, value in data.items() if key != missing}
        said = refused(await pai.admin.put("/v2/users", json={"data": part}), 400, "InvalidParametersError")
        assert missing in said


async def test_change_a_part_of_a_user(pai: Pai) -> None:
    await pai.house.services.users.update_extension(pai.alice, "alice", {"a": 1, "b": 1})
    data = {"username": "alice", "extension": {"b": 2, "a": None, "c": [3]}}
    done(await pai.admin.put("/v2/users", json={"patch": True, "data": data}))
    found = (await pai.user.get("/v2/users/alice")).json()
    assert (found["extension"], found["grouplist"]) == ({"b": 2, "c": [3]}, ["default"])
    nobody = {"patch": True, "data": {"username": "bob", "email": "x"}}
    refused(await pai.admin.put("/v2/users", json=nobody), 404, "NoUserError", "User bob is not found.")
    for body in ({}, {"data": {}}, {"data": "x"}, {"patch": "maybe", "data": {"username": "alice"}}):
        refused(await pai.admin.put("/v2/users", json=body), 400, "InvalidParametersError")


async def test_a_change_is_made_whole_or_not_at_all(pai: Pai) -> None:
    data = {"username": "alice", "email": "new@example.com", "extension": {"a": "x" * 70_000}}
    refused(await pai.admin.put("/v2/users", json={"patch": True, "data": data}), 400, "InvalidParametersError")
    assert (await pai.user.get("/v2/users/alice")).json()["email"] == ""


async def test_a_wrong_password_changes_nothing_else(pai: Pai) -> None:
    data = {"username": "alice", "email": "new@example.com", "newPassword": "a new long password"}
    for old, more in (("wrong", {}), (PASSWORD, {"extension": {"a": "x" * 70_000}})):
        body = {"patch": True, "data": {**data, "oldPassword": old, **more}}
        assert (await pai.user.put("/v2/users/me", json=body)).status_code == 400
        assert (await pai.user.get("/v2/users/alice")).json()["email"] == ""
    done(await pai.user.put("/v2/users/me", json={"data": {**data, "oldPassword": PASSWORD}}))
    again = await pai.login("alice", "a new long password")
    assert (await again.get("/v2/users/alice")).json()["email"] == "new@example.com"


@pytest.mark.parametrize("number", ["1e999", "-1e999", "NaN", "Infinity"])
async def test_numbers_that_no_client_could_read_again(pai: Pai, number: str) -> None:
    body = '{"extension": {"sshKeys": [{"title": "t", "value": "v", "time": NUMBER}]}}'.replace("NUMBER", number)
    refused(await pai.user.put("/v2/users/alice/extension", content=body), 400, "InvalidParametersError")
    with pytest.raises(UserError, match="finite"):
        await pai.house.services.users.update_extension(pai.alice, "alice", {"a": float(number)})


async def test_extensions_that_would_cost_much(pai: Pai) -> None:
    for inner, status in (("[]," * 80_000 + "[]", 400), ("[" * 900 + "]" * 900, 400), ("[]," * 90_000 + "[]", 413)):
        body = f'{{"extension": {{"a": [{inner}]}}}}'
        refused(await pai.user.put("/v2/users/alice/extension", content=body), status, "InvalidParametersError")
    assert (await pai.user.get("/v2/users/alice")).json()["extension"] == {}


async def test_the_last_admin_stays_one(pai: Pai) -> None:
    said = refused(await pai.admin.put("/v2/users/admin/admin", json={"admin": False}), 409, "InvalidParametersError")
    assert "last admin" in said


async def test_change_oneself(pai: Pai) -> None:
    data = {"username": "alice", "email": "me@example.com", "extension": {"sshKeys": [KEY]}}
    done(await pai.user.put("/v2/users/me", json={"patch": True, "data": data}))
    found = (await pai.user.get("/v2/users/alice")).json()
    assert (found["email"], found["extension"]) == ("me@example.com", {"sshKeys": [KEY]})
    other = {"patch": True, "data": {"username": "admin", "email": "x"}}
    refused(await pai.user.put("/v2/users/me", json=other), 403, "ForbiddenUserError", "Can't update other user's data")


@pytest.mark.parametrize("more", [{"admin": True}, {"virtualCluster": ["default", "red"]}])
async def test_nobody_makes_themselves_more(pai: Pai, more: dict[str, Any]) -> None:
    await pai.house.add_group("red")
    data = {"username": "alice", "email": "me@example.com"}
    said = "Non-admin is not allow to do this operation."
    for body in ({"patch": True, "data": {**data, **more}}, {"patch": True, "data": data, **more}):
        refused(await pai.user.put("/v2/users/me", json=body), 403, "ForbiddenUserError", said)
    found = (await pai.user.get("/v2/users/alice")).json()
    assert (found["admin"], found["email"], found["virtualCluster"]) == (False, "", ["default"])
    done(await pai.user.put("/v2/users/me", json={"data": {**data, "admin": False, "virtualCluster": ["default"]}}))


async def test_change_ones_own_password_really(pai: Pai) -> None:
    async def change(old: str | None, new: str) -> httpx.Response:
        data = {"username": "alice", "newPassword": new} | ({} if old is None else {"oldPassword": old})
        return await pai.user.put("/v2/users/me", json={"patch": True, "data": data})

    refused(await change(None, "a new long password"), 400, "InvalidParametersError")
    refused(await change("wrong", "a new long password"), 400, "IncorrectPasswordError", "Password is incorrect.")
    refused(await change(PASSWORD, "short"), 400, "InvalidParametersError")
    done(await change(PASSWORD, PASSWORD))  # no change, so the login it came by stays
    done(await change(PASSWORD, "a new long password"))
    await pai.login("alice", "a new long password")
    refused(await pai.user.get("/v2/users/alice"), 401, "UnauthorizedUserError")


async def test_change_one_thing_of_oneself(pai: Pai) -> None:
    done(await pai.user.put("/v2/users/alice/extension", json={"extension": {"a": 1}}))
    done(await pai.user.put("/v2/user/alice/extension", json={"extension": {"b": 2}}))
    done(await pai.user.put("/v2/users/alice/email", json={"email": "me@example.com"}))
    found = (await pai.user.get("/v2/users/alice")).json()
    assert (found["email"], found["extension"]) == ("me@example.com", {"a": 1, "b": 2})
    for what, body in (
        ("extension", {"extension": {}}), ("email", {"email": "x"}), ("password", {"newPassword": "long enough now"}),
    ):  # fmt: skip
        refused(await pai.user.put(f"/v2/users/admin/{what}", json=body), 403, "ForbiddenUserError")
        refused(await pai.user.put(f"/v2/users/alice/{what}", json={}), 400, "InvalidParametersError")


async def test_set_a_password(pai: Pai) -> None:
    path = "/v2/users/alice/password"
    refused(await pai.user.put(path, json={"newPassword": "a new long password"}), 400, "InvalidParametersError")
    wrong = {"oldPassword": "wrong", "newPassword": "a new long password"}
    refused(await pai.user.put(path, json=wrong), 400, "IncorrectPasswordError")
    done(await pai.user.put(path, json={"oldPassword": PASSWORD, "newPassword": "a new long password"}))
    done(await pai.admin.put(path, json={"newPassword": "set by the admin"}))
    await pai.login("alice", "set by the admin")
    refused(await pai.admin.put("/v2/users/bob/password", json={"newPassword": "set by the admin"}), 404, "NoUserError")


async def test_set_groups(pai: Pai) -> None:
    await pai.house.add_group("research")
    await pai.house.add_group("teaching")

    async def groups() -> list[str]:
        return list((await pai.admin.get("/v2/users/alice")).json()["grouplist"])

    done(await pai.admin.put("/v2/users/alice/virtualcluster", json={"virtualCluster": ["research"]}))
    assert await groups() == ["default", "research"]
    done(await pai.admin.put("/v2/users/alice/grouplist", json={"grouplist": ["teaching"]}))
    assert await groups() == ["default", "teaching"]
    done(await pai.admin.put("/v2/users/alice/group", json={"groupname": "research"}))
    done(await pai.admin.put("/v2/users/alice/group", json={"groupname": "research"}))
    done(await pai.admin.request("DELETE", "/v2/users/alice/group", json={"groupname": "teaching"}))
    done(await pai.admin.request("DELETE", "/v2/users/alice/group", json={"groupname": "teaching"}))
    assert await groups() == ["default", "research"]
    left = await pai.admin.request("DELETE", "/v2/users/alice/group", json={"groupname": "default"})
    refused(left, 403, "ForbiddenUserError")
    for what, body in (
        ("virtualcluster", {"virtualCluster": ["nowhere"]}),
        ("grouplist", {"grouplist": ["nowhere"]}),
        ("group", {"groupname": "nowhere"}),
    ):
        refused(await pai.admin.put(f"/v2/users/alice/{what}", json=body), 400, "NoVirtualClusterError")
        refused(await pai.admin.put(f"/v2/users/alice/{what}", json={}), 400, "InvalidParametersError")
    for what, body in (("virtualcluster", {"virtualCluster": []}), ("group", {"groupname": "research"})):
        refused(await pai.admin.put(f"/v2/users/bob/{what}", json=body), 404, "NoUserError")


async def test_a_group_keeps_its_admins(pai: Pai) -> None:
    await pai.house.add_group("research")
    await pai.house.services.groups.set_member(pai.house.admin, "research", "alice", admin=True)
    done(await pai.admin.put("/v2/users/alice/grouplist", json={"grouplist": ["research"]}))
    done(await pai.admin.put("/v2/users/alice/group", json={"groupname": "research"}))
    assert (await pai.house.services.groups.get(pai.house.admin, "research")).members == {"alice": True}


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("POST", "/v2/users"),
        ("PUT", "/v2/users"),
        ("DELETE", "/v2/users/alice"),
        *(("PUT", f"/v2/users/alice/{what}") for what in ("virtualcluster", "admin", "grouplist", "group")),
        ("DELETE", "/v2/users/alice/group"),
    ],
)
async def test_admins_only(pai: Pai, method: str, path: str) -> None:
    text = "Non-admin is not allow to do this operation."
    refused(await pai.user.request(method, path, json={}), 403, "ForbiddenUserError", text)
    program = await pai.application(pai.house.admin)
    text = "Applications are not allowed to do this operation."
    refused(await program.request(method, path, json={}), 403, "ForbiddenUserError", text)
    text = "Guest is not allowed to do this operation."
    refused(await pai.guest.request(method, path, json={}), 401, "UnauthorizedUserError", text)


@pytest.mark.parametrize("what", ["me", "alice/extension", "alice/email", "alice/password"])
async def test_programs_change_nobody(pai: Pai, what: str) -> None:
    text = "Applications are not allowed to do this operation."
    refused(await (await pai.application()).put(f"/v2/users/{what}", json={}), 403, "ForbiddenUserError", text)
