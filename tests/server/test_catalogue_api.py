"""Instance types, image aliases and more of groups, over REST."""

from __future__ import annotations

import json
from typing import Any

import pytest

from holdfast.core.job import GIB
from holdfast.core.states import JobState

from .rig import Rig, error_of

pytestmark = pytest.mark.anyio

SMALL = {
    "name": "small",
    "display_name": "",
    "description": "",
    "cpu": 1.0,
    "memory": GIB,
    "gpu": 0,
    "cpu_request": None,
    "memory_request": None,
    "gpu_resource": "nvidia.com/gpu",
    "tolerations": [],
    "node_selector": {},
    "slurm": {},
    "everyone": True,
    "groups": [],
}
TORCH = {
    "name": "torch",
    "display_name": "",
    "description": "",
    "kind": "both",
    "url": "torch:2",
    "gpu_url": "",
    "pull_secret": None,
    "owner": None,
    "everyone": True,
    "groups": [],
}


async def made(rig: Rig, path: str, body: dict[str, Any], **more: Any) -> dict[str, Any]:
    response = await rig.post(path, json=body, **more)
    assert response.status_code == 201, response.text
    return dict(response.json())


async def test_a_size_from_beginning_to_end(rig: Rig) -> None:
    assert await made(rig, "/instance-types", {"name": "small", "memory": GIB}) == SMALL
    assert (await rig.get("/instance-types/small")).json() == SMALL
    change = {
        "display_name": "Small",
        "cpu": 2.0,
        "gpu": 1,
        "cpu_request": 0.5,
        "tolerations": [{"operator": "Equal", "key": "a", "value": "b", "effect": "NoSchedule"}],
        "node_selector": {"disk": "ssd"},
        "slurm": {"partition": "gpu", "gres": "gpu:a100:1"},
        "everyone": False,
        "groups": ["default"],
    }
    changed = (await rig.ask("PATCH", "/instance-types/small", json=change)).json()
    assert changed == {**SMALL, **change}
    # Null means something for requests, and nothing elsewhere.
    back = (await rig.ask("PATCH", "/instance-types/small", json={"cpu_request": None, "cpu": None})).json()
    assert back == {**changed, "cpu_request": None}
    listed = (await rig.get("/instance-types")).json()
    assert back in listed["items"]
    assert (await rig.ask("DELETE", "/instance-types/small")).status_code == 204
    error_of(await rig.get("/instance-types/small"), 404)
    error_of(await rig.ask("DELETE", "/instance-types/small"), 404)


async def test_an_alias_from_beginning_to_end(rig: Rig) -> None:
    assert await made(rig, "/image-aliases", {"name": "torch", "url": "torch:2"}) == TORCH
    change = {"gpu_url": "torch:2-cuda", "kind": "both", "description": "x", "everyone": False, "groups": ["default"]}
    changed = (await rig.ask("PATCH", "/image-aliases/torch", json=change)).json()
    assert changed == {**TORCH, **change}
    assert (await rig.ask("PATCH", "/image-aliases/torch", json={"pull_secret": None, "url": None})).json() == changed
    listed = (await rig.get("/image-aliases")).json()
    assert [alias["name"] for alias in listed["items"]] == ["host", "torch"]
    assert (await rig.ask("DELETE", "/image-aliases/torch")).status_code == 204
    error_of(await rig.get("/image-aliases/torch"), 404)


@pytest.mark.parametrize(
    ("path", "body"),
    [("/instance-types", {"name": "one", "memory": GIB}), ("/image-aliases", {"name": "one", "url": "one:1"})],
)
async def test_grants(rig: Rig, path: str, body: dict[str, Any]) -> None:
    ann = await rig.token_of("ann", "red")
    await rig.house.add_group("blue")
    one = await made(rig, path, {**body, "groups": ["blue"]})
    assert (one["everyone"], one["groups"]) == (False, ["blue"])
    error_of(await rig.get(f"{path}/one", headers=ann), 404)
    assert (await rig.ask("PUT", f"{path}/one/groups/red")).json()["groups"] == ["blue", "red"]
    assert (await rig.get(f"{path}/one", headers=ann)).status_code == 200
    usable = (await rig.get(f"{path}?group=red", headers=ann)).json()["items"]
    assert "one" in [item["name"] for item in usable]
    assert (await rig.get(f"{path}?group=blue", headers=ann)).json() == {"items": []}
    assert (await rig.ask("DELETE", f"{path}/one/groups/red")).status_code == 204
    error_of(await rig.ask("DELETE", f"{path}/one/groups/red"), 404)
    error_of(await rig.ask("PUT", f"{path}/one/groups/none"), 404)
    for method, where, sent in (
        ("POST", path, {**body, "name": "two"}),
        ("PATCH", f"{path}/one", {"description": "mine"}),
        ("DELETE", f"{path}/one", None),
        ("PUT", f"{path}/one/groups/red", None),
    ):
        assert (await rig.ask(method, where, json=sent, headers=ann)).status_code in (403, 404)


async def test_admins_of_a_group_look_after_its_aliases(rig: Rig) -> None:
    ann = await rig.token_of("ann", "red")
    alias = {"name": "ours", "url": "a:1", "owner": "red"}
    assert "red" in error_of(await rig.post("/image-aliases", json=alias, headers=ann), 403)["message"]
    await rig.ask("PUT", "/groups/red/members/ann", json={"admin": True})
    one = await made(rig, "/image-aliases", alias, headers=ann)
    assert (one["owner"], one["everyone"], one["groups"]) == ("red", False, ["red"])
    error_of(await rig.ask("PATCH", "/image-aliases/ours", json={"everyone": True}, headers=ann), 403)
    assert (await rig.ask("PATCH", "/image-aliases/ours", json={"url": "a:2"}, headers=ann)).json()["url"] == "a:2"
    assert (await rig.ask("DELETE", "/image-aliases/ours", headers=ann)).status_code == 204


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/instance-types", {"name": "../x", "memory": GIB}),
        ("/instance-types", {"name": "x" * 10_000, "memory": GIB}),
        ("/instance-types", {"name": "a", "memory": 10**30}),
        ("/instance-types", {"name": "a", "memory": "lots"}),
        ("/instance-types", {"name": "a", "memory": GIB, "cpu": 10**400}),
        ("/instance-types", {"name": "a", "memory": GIB, "tolerations": [{"operator": {}}]}),
        ("/instance-types", {"name": "a", "memory": GIB, "node_selector": {"key": None}}),
        ("/instance-types", {"name": "a", "memory": GIB, "cores": 1}),
        ("/instance-types", {"name": "a", "memory": GIB, "display_name": "\ud800"}),
        ("/image-aliases", {"name": "a", "url": "x", "kind": "cheese"}),
        ("/image-aliases", {"name": "a", "url": "x\u0000"}),
        ("/image-aliases", {"name": "a\u0000", "url": "x"}),
        ("/groups", {"name": "everyone"}),
        ("/groups", {"name": "a", "volume_capacity": 0}),
        ("/groups", {"name": "a", "quota": {"gpu": 1}, "user_quota": {"gpu": 2}}),
    ],
)
async def test_hostile_and_mistaken_bodies_are_refused(rig: Rig, path: str, body: dict[str, Any]) -> None:
    headers = {"Content-Type": "application/json"}
    response = await rig.post(path, content=json.dumps(body), headers=headers)
    assert response.status_code in (400, 422), response.text
    assert set(response.json()["error"]) >= {"code", "message"}


@pytest.mark.parametrize("name", ["%00", "a%2Fb", "%ed%a0%80", "x" * 3000, "%F0%9F%9A%80"])
@pytest.mark.parametrize("path", ["/instance-types", "/image-aliases"])
async def test_hostile_names_are_not_found(rig: Rig, path: str, name: str) -> None:
    for method in ("GET", "DELETE"):
        assert (await rig.ask(method, f"{path}/{name}")).status_code in (400, 404)
    assert (await rig.ask("PUT", f"{path}/{name}/groups/{name}")).status_code in (400, 404)


async def test_all_of_a_group(rig: Rig) -> None:
    volume = {"shared_volume": True, "volume_capacity": 5, "launch_only": False, "home_symlink": False}
    group = await made(rig, "/groups", {"name": "red", "display_name": "Red", **volume})
    assert {key: group[key] for key in volume} == volume
    back = (await rig.ask("PATCH", "/groups/red", json={"volume_capacity": None, "shared_volume": None})).json()
    assert back == {**group, "volume_capacity": None}
    ann = await rig.token_of("ann", "red")
    error_of(await rig.ask("PATCH", "/groups/red", json={"time_limit": 60}, headers=ann), 403)
    await rig.ask("PUT", "/groups/red/members/ann", json={"admin": True})
    limited = (await rig.ask("PATCH", "/groups/red", json={"time_limit": 60}, headers=ann)).json()
    assert limited["time_limit"] == 60
    error_of(await rig.ask("PATCH", "/groups/red", json={"time_limit": 60, "description": "x"}, headers=ann), 403)


async def test_where_experiments_go(rig: Rig) -> None:
    head, ann, bob = (await rig.token_of("head", "red"), await rig.token_of("ann", "red"), await rig.token_of("bob"))
    await rig.ask("PUT", "/groups/red/members/head", json={"admin": True})
    assert (await rig.get("/groups/red/mlflow", headers=ann)).json() is None
    body = {"tracking_uri": "http://m", "ui_url": "", "tracking_envs": {"A": "swordfish"}, "artifact_envs": {}}
    assert (await rig.ask("PUT", "/groups/red/mlflow", json=body, headers=head)).status_code == 204
    assert (await rig.get("/groups/red/mlflow", headers=head)).json() == body
    seen = await rig.get("/groups/red/mlflow", headers=ann)
    assert seen.json()["tracking_envs"] == {"A": "******"}
    error_of(await rig.get("/groups/red/mlflow", headers=bob), 404)
    error_of(await rig.ask("PUT", "/groups/red/mlflow", json=body, headers=ann), 403)
    error_of(await rig.ask("PUT", "/groups/red/mlflow", json=seen.json(), headers=head), 400)
    assert "swordfish" not in (await rig.get("/groups/red", headers=head)).text
    assert (await rig.ask("DELETE", "/groups/red/mlflow", headers=head)).status_code == 204
    assert (await rig.get("/groups/red/mlflow")).json() is None


async def test_a_size_that_is_not_there_is_told_when_a_job_is_sent(rig: Rig) -> None:
    form = '{"displayName": "x", "instanceType": "cpu1", "image": "host", "command": "y"}'
    error = error_of(await rig.post("/jobs", content=form), 404)
    assert "'cpu1' is not an instance type" in error["message"]
    assert "cpu-1" in error["hint"]
    ours = "name: x\ncommand: y\ninstance_type: cpu1\n"
    assert error_of(await rig.post("/jobs", content=ours), 400)["problems"][0]["line"] == 3


async def test_capacity_tells_what_each_user_has(rig: Rig) -> None:
    ann = await rig.token_of("ann", "red")
    job = "name: x\ncommand: sleep 60\ngroup: red\nresources: {cpu: 0.5, memory: 64Mi}\n"
    sent = (await rig.post("/jobs", content=job, headers=ann)).json()
    await rig.house.until(sent["id"], JobState.RUNNING)
    found = (await rig.get("/capacity", headers=ann)).json()
    (red,) = found["groups"]
    assert red["users"] == {"ann": {"cpu": 0.5, "memory": 64 * 2**20, "gpu": 0}}
