from __future__ import annotations

import pytest

from .rig import Rig, error_of

pytestmark = pytest.mark.anyio


async def test_log_in_and_out(rig: Rig) -> None:
    body = {"user": "admin", "password": rig.house.admin_password}
    response = await rig.post("/login", json=body, headers={"Authorization": ""})
    mine = {"Authorization": f"Bearer {response.json()['token']}"}
    me = (await rig.get("/me", headers=mine)).json()
    assert me == {"name": "admin", "admin": True, "email": "", "groups": {"default": True}}
    assert (await rig.post("/logout", headers=mine)).status_code == 204
    assert error_of(await rig.get("/me", headers=mine), 401)["code"] == "not_logged_in"


async def test_wrong_logins(rig: Rig) -> None:
    for body in ({"user": "admin", "password": "wrong"}, {"user": "nobody", "password": "wrong"}):
        assert error_of(await rig.post("/login", json=body), 401)["code"] == "not_logged_in"
    for bad in ({}, {"user": "admin"}, {"user": 1, "password": "x"}, [], "x", {"user": "a", "password": "b", "c": 1}):
        error_of(await rig.post("/login", json=bad), 400)
    for content in (b"{", b"\xff", b"[" * 100_000, b'{"user": "\\ud800", "password": "x"}'):
        status = (await rig.post("/login", content=content, headers={"Content-Type": "application/json"})).status_code
        assert status in (400, 401)


async def test_guessing_is_slowed_down(rig: Rig) -> None:
    for _ in range(5):
        error_of(await rig.post("/login", json={"user": "admin", "password": "wrong"}), 401)
    response = await rig.post("/login", json={"user": "admin", "password": rig.house.admin_password})
    assert error_of(response, 429)["code"] == "too_many_requests"
    assert int(response.headers["retry-after"]) >= 1


@pytest.mark.parametrize("number", ["Infinity", "-Infinity", "NaN", "1e999", "1" * 30, "1" * 400, "1" * 5000])
async def test_numbers_beyond_all_reason_are_refused(rig: Rig, number: str) -> None:
    as_json = {"Content-Type": "application/json"}
    for field in ("cpu", "memory", "gpu"):
        content = f'{{"name": "lab", "quota": {{"{field}": {number}}}}}'
        error_of(await rig.post("/groups", content=content, headers=as_json), 400)
        content = f'{{"user_quota": {{"{field}": {number}}}}}'
        error_of(await rig.ask("PATCH", "/groups/default", content=content, headers=as_json), 400)
    listed = await rig.get("/groups")
    assert [group["name"] for group in listed.json()["items"]] == ["default"]
    assert "Infinity" not in listed.text


ODD = ["", "Bearer", "Bearer ", "Basic YTpi", "Bearer hf_x_y", "bearer  \u00e9", "Bearer " + "x" * 9000]


async def test_odd_authorization_is_no_login(rig: Rig) -> None:
    for header in ODD:
        response = await rig.get("/me", headers={"Authorization": header.encode("utf-8")})
        error_of(response, 401)
        assert response.headers["www-authenticate"] == "Bearer"


async def test_two_authorizations_are_no_login(rig: Rig) -> None:
    token = rig.client.headers["authorization"]
    response = await rig.client.get("/api/v1/me", headers=[("Authorization", token), ("Authorization", token)])
    error_of(response, 401)


async def test_everything_but_a_few_needs_a_login(rig: Rig) -> None:
    schema = (await rig.get("/openapi.json")).json()
    for path, operations in schema["paths"].items():
        for method in operations:
            address = path.replace("{", "").replace("}", "")
            response = await rig.client.request(method, address, headers={"Authorization": ""}, json={})
            if path.removeprefix("/api/v1") in ("/health", "/version"):
                assert response.status_code == 200
            elif path.endswith(("/login", "/identity")):  # what they need is missing
                error_of(response, 400)
            else:
                error_of(response, 401)


async def test_own_password(rig: Rig) -> None:
    await rig.house.user("alice", "lab", password="old password")
    login = await rig.post("/login", json={"user": "alice", "password": "old password"})
    mine = {"Authorization": f"Bearer {login.json()['token']}"}
    wrong = {"old": "wrong", "new": "new password"}
    assert error_of(await rig.ask("PUT", "/me/password", json=wrong, headers=mine), 403)["field"] == "old"
    short = {"old": "old password", "new": "x"}
    assert error_of(await rig.ask("PUT", "/me/password", json=short, headers=mine), 400)["field"] == "new"
    right = {"old": "old password", "new": "new password"}
    assert (await rig.ask("PUT", "/me/password", json=right, headers=mine)).status_code == 204
    error_of(await rig.get("/me", headers=mine), 401)


async def test_users(rig: Rig) -> None:
    made = await rig.post("/users", json={"name": "alice", "password": "long enough", "email": "a@b.c"})
    assert made.status_code == 201
    assert made.json()["groups"] == {"default": False}
    listed = (await rig.get("/users")).json()
    assert [user["name"] for user in listed["items"]] == ["admin", "alice"]
    assert (await rig.get("/users/alice")).json() == made.json()
    changed = await rig.ask("PATCH", "/users/alice", json={"disabled": True})
    assert changed.json()["disabled"]
    assert (await rig.ask("PUT", "/users/alice/password", json={"password": "another one"})).status_code == 204
    assert (await rig.ask("DELETE", "/users/alice")).status_code == 204
    error_of(await rig.get("/users/alice"), 404)
    error_of(await rig.ask("DELETE", "/users/alice"), 404)
    error_of(await rig.ask("PATCH", "/users/alice", json={"email": "x"}), 404)
    error_of(await rig.ask("PUT", "/users/alice/password", json={"password": "another one"}), 404)
    assert error_of(await rig.post("/users", json={"name": "a/b"}), 400)["field"] == "name"
    assert error_of(await rig.post("/users", json={"name": "x", "admn": True}), 400)["field"] == "admn"
    error_of(await rig.ask("DELETE", "/users/admin"), 409)


async def test_users_with_groups(rig: Rig) -> None:
    await rig.house.add_group("lab")
    made = await rig.post("/users", json={"name": "alice", "groups": ["lab", "default"]})
    assert made.json()["groups"] == {"default": False, "lab": False}
    made = await rig.post("/users", json={"name": "bob", "groups": {"lab": True}})
    assert made.json()["groups"] == {"lab": True}


async def test_users_are_refused_to_others(rig: Rig) -> None:
    alice = await rig.token_of("alice", "lab")
    assert [user["name"] for user in (await rig.get("/users", headers=alice)).json()["items"]] == ["alice"]
    error_of(await rig.post("/users", json={"name": "eve"}, headers=alice), 403)
    error_of(await rig.ask("PATCH", "/users/alice", json={"admin": True}, headers=alice), 403)
    error_of(await rig.ask("DELETE", "/users/admin", headers=alice), 403)
    error_of(await rig.get("/users/admin", headers=alice), 404)


async def test_tokens(rig: Rig) -> None:
    made = await rig.post("/tokens", json={"name": "ci", "expires_in": 60})
    assert made.status_code == 201
    assert made.json()["expires_at"] == "2026-03-01T12:01:00Z"
    listed = (await rig.get("/tokens")).json()
    assert {token["name"] for token in listed["items"]} == {"ci", "this machine"}
    assert made.json()["token"] not in str(listed)
    assert (await rig.ask("DELETE", f"/tokens/{made.json()['id']}")).status_code == 204
    error_of(await rig.ask("DELETE", f"/tokens/{made.json()['id']}"), 404)
    for bad in ({"expires_in": 0}, {"expires_in": -1}, {"expires_in": 1e300}, {"name": "a\nb"}, {"expires_in": "x"}):
        error_of(await rig.post("/tokens", json=bad), 400)
    alice = await rig.token_of("alice", "lab")
    error_of(await rig.post("/tokens", json={"name": "x", "user": "admin"}, headers=alice), 403)
    error_of(await rig.get("/tokens?user=admin", headers=alice), 403)
    error_of(await rig.post("/tokens", json={"name": "x", "user": "nobody"}), 404)


async def test_groups(rig: Rig) -> None:
    body = {"name": "lab", "description": "d", "quota": {"cpu": 2.5, "gpu": 1}, "time_limit": 60}
    made = await rig.post("/groups", json=body)
    assert made.status_code == 201
    assert made.json()["quota"] == {"cpu": 2.5, "memory": None, "gpu": 1}
    changed = await rig.ask("PATCH", "/groups/lab", json={"user_quota": {"memory": 1024}})
    assert changed.json()["user_quota"]["memory"] == 1024
    assert (changed.json()["time_limit"], changed.json()["quota"]["gpu"]) == (60, 1)
    assert (await rig.ask("PATCH", "/groups/lab", json={"time_limit": None})).json()["time_limit"] is None
    options = {"partition": "gpu", "qos": "high"}
    assert (await rig.ask("PATCH", "/groups/lab", json={"slurm": options})).json()["slurm"] == options
    assert (await rig.ask("PATCH", "/groups/lab", json={"description": "e"})).json()["slurm"] == options
    assert (await rig.ask("PATCH", "/groups/lab", json={"slurm": {"qos": "low"}})).json()["slurm"] == {"qos": "low"}
    error_of(await rig.ask("PATCH", "/groups/lab", json={"slurm": {"gres": "gpu:1"}}), 400)
    await rig.house.user("alice")
    members = (await rig.ask("PUT", "/groups/lab/members/alice", json={"admin": True})).json()["members"]
    assert members == {"alice": True}
    assert (await rig.ask("PUT", "/groups/lab/members/alice")).json()["members"] == {"alice": False}
    listed = (await rig.get("/groups")).json()
    assert [group["name"] for group in listed["items"]] == ["default", "lab"]
    assert (await rig.ask("DELETE", "/groups/lab/members/alice")).status_code == 204
    error_of(await rig.ask("DELETE", "/groups/lab/members/alice"), 404)
    assert (await rig.ask("DELETE", "/groups/lab")).status_code == 204
    error_of(await rig.get("/groups/lab"), 404)
    error_of(await rig.ask("DELETE", "/groups/default"), 409)
    error_of(await rig.post("/groups", json={"name": "default"}), 409)
    for bad in ({"name": "x", "quota": {"cpu": -1}}, {"name": "x", "time_limit": "1h"}, {"name": "../x"}):
        error_of(await rig.post("/groups", json=bad), 400)


async def test_images(rig: Rig) -> None:
    listed = (await rig.get("/images")).json()
    assert [image["name"] for image in listed["items"]] == ["host"]
    alice = await rig.token_of("alice", "lab")
    error_of(await rig.post("/images?name=x", content=b"tar", headers=alice), 403)
    error_of(await rig.ask("DELETE", "/images/x", headers=alice), 403)
    error_of(await rig.post("/images?name=host", content=b"tar"), 409)
    assert error_of(await rig.post("/images?name=../x", content=b"tar"), 400)["field"] == "name"
    error_of(await rig.post("/images", content=b"tar"), 400)
    error_of(await rig.post("/images?name=a/b:1", content=b"tar"), 409)  # the scripted engine keeps none


async def test_the_place(rig: Rig) -> None:
    nobody = {"Authorization": ""}
    health = (await rig.get("/health", headers=nobody)).json()
    assert health["status"] == "ok"
    capacity = (await rig.get("/capacity")).json()
    assert capacity["nodes"][0]["free"] == {"cpu": 4.0, "memory": 16 * 2**30, "gpu": 0}
    status = (await rig.get("/status")).json()
    assert status["home"] == str(rig.house.home)
    assert status["jobs"] == {"Pending": 0, "Preparing": 0, "Running": 0, "Held": 0}
    alice = await rig.token_of("alice", "lab")
    assert (await rig.get("/status", headers=alice)).json()["home"] is None
    assert [group["name"] for group in (await rig.get("/capacity", headers=alice)).json()["groups"]] == ["lab"]


async def test_a_broken_database_is_said(rig: Rig) -> None:
    await rig.house.store.close()
    assert (await rig.get("/health")).json()["status"] == "degraded"
    error = error_of(await rig.get("/jobs"), 503)
    assert error["code"] == "unavailable"
