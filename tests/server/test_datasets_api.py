from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.services.repositories import Repository

from .rig import Rig, error_of

pytestmark = pytest.mark.anyio


@pytest.fixture
def data(tmp_path: Path) -> str:
    (tmp_path / "data").mkdir()
    return str(tmp_path / "data")


async def add(rig: Rig, name: str, path: str, **more: Any) -> dict[str, Any]:
    response = await rig.post("/datasets", json={"name": name, "path": path, **more})
    assert response.status_code == 201, response.text
    return dict(response.json())


async def test_a_dataset_from_beginning_to_end(rig: Rig, data: str) -> None:
    made = await add(rig, "wiki", data)
    assert made == {
        "name": "wiki",
        "path": data,
        "display_name": "",
        "description": "",
        "read_only": True,
        "everyone": False,
        "groups": [],
        "writable_groups": [],
        "per_user": False,
        "default": False,
        "kind": "folder",
        "data": {},
        "sync": None,
    }
    assert (await rig.get("/datasets/wiki")).json() == made
    change = {"description": "x", "read_only": False, "kind": "nfs", "data": {"server": "s", "path": "/e"}}
    changed = (await rig.ask("PATCH", "/datasets/wiki", json=change)).json()
    assert changed == {**made, **change}
    listed = (await rig.get("/datasets")).json()
    assert listed == {"items": [changed]}
    assert (await rig.ask("DELETE", "/datasets/wiki")).status_code == 204
    error_of(await rig.get("/datasets/wiki"), 404)
    error_of(await rig.ask("DELETE", "/datasets/wiki"), 404)


async def test_grants(rig: Rig, data: str) -> None:
    ann = await rig.token_of("ann", "red")
    await add(rig, "wiki", data)
    assert (await rig.get("/datasets", headers=ann)).json() == {"items": []}
    assert "wiki" in error_of(await rig.get("/datasets/wiki", headers=ann), 404)["message"]
    granted = await rig.ask("PUT", "/datasets/wiki/groups/red")
    assert granted.json()["groups"] == ["red"]
    assert (await rig.get("/datasets/wiki", headers=ann)).json() == {**granted.json(), "path": ""}
    assert (await rig.ask("DELETE", "/datasets/wiki/groups/red")).status_code == 204
    error_of(await rig.get("/datasets/wiki", headers=ann), 404)
    error_of(await rig.ask("DELETE", "/datasets/wiki/groups/red"), 404)
    error_of(await rig.ask("PUT", "/datasets/wiki/groups/none"), 404)


async def test_only_admins_manage_them(rig: Rig, data: str) -> None:
    ann = await rig.token_of("ann", "red")
    await add(rig, "wiki", data, everyone=True)
    error_of(await rig.post("/datasets", json={"name": "a", "path": data}, headers=ann), 403)
    error_of(await rig.ask("PATCH", "/datasets/wiki", json={"read_only": False}, headers=ann), 403)
    error_of(await rig.ask("DELETE", "/datasets/wiki", headers=ann), 403)
    error_of(await rig.ask("PUT", "/datasets/wiki/groups/red", headers=ann), 403)
    error_of(await rig.ask("DELETE", "/datasets/wiki/groups/red", headers=ann), 403)
    error_of(await rig.get("/datasets", headers={"Authorization": ""}), 401)


async def test_a_name_is_taken_once(rig: Rig, data: str) -> None:
    await add(rig, "wiki", data)
    error_of(await rig.post("/datasets", json={"name": "wiki", "path": data}), 409)


@pytest.mark.parametrize(
    "wrong",
    [
        {"name": "../x"},
        {"name": "x" * 300},
        {"path": "relative"},
        {"path": "/" + "x" * 5000},
        {"path": "/nul\0"},
        {"path": "/half\ud800"},
        {"description": "half\ud800"},
        {"kind": "nfs", "data": {"server": "half\ud800", "path": "/"}},
        {"read_only": "yes"},
        {"groups": "red"},
        {"groups": ["g"] * 1001},
        {"kind": "samba"},
        {"data": {"server": 1}},
        {"data": {str(n): "x" for n in range(9)}},
        {"unknown": 1},
    ],
    ids=lambda wrong: str(wrong)[:40],
)
async def test_what_cannot_be_a_dataset(rig: Rig, data: str, wrong: dict[str, Any]) -> None:
    body = json.dumps({"name": "wiki", "path": data, **wrong})
    error_of(await rig.post("/datasets", content=body, headers={"Content-Type": "application/json"}), 400)
    assert (await rig.get("/datasets")).json() == {"items": []}


async def test_a_job_shows_where_its_mounts_come_from(rig: Rig, data: str) -> None:
    ann = await rig.token_of("ann", "default")
    await add(rig, "wiki", data, everyone=True)
    text = "name: j\ncommand: sleep 60\ndatasets: [wiki]\n"
    made = (await rig.post("/jobs", content=text, headers=ann)).json()
    job = (await rig.get(f"/jobs/{made['id']}", headers=ann)).json()["job"]
    assert job["datasets"] == ["wiki"]
    mount = {"source": "wiki", "target": "/datasets/wiki", "read_only": True, "dataset": "wiki"}
    assert job["roles"][0]["mounts"] == [mount]
    error_of(await rig.post("/jobs", content=text.replace("wiki", "other"), headers=ann), 404)


async def test_a_volume(rig: Rig) -> None:
    await rig.house.add_group("red")
    body = {
        "name": "vol",
        "kind": "volume",
        "display_name": "Volume",
        "writable_groups": ["red"],
        "data": {"size": "5"},
    }
    made = (await rig.post("/datasets", json=body)).json()
    assert (made["groups"], made["writable_groups"], made["display_name"]) == (["red"], ["red"], "Volume")
    await rig.house.add_group("blue")
    granted = (await rig.ask("PUT", "/datasets/vol/groups/blue?writable=true")).json()
    assert granted["writable_groups"] == ["blue", "red"]
    Path(made["path"], "note").write_text("x")
    assert (await rig.ask("DELETE", "/datasets/vol")).status_code == 204
    assert "adopt" in error_of(await rig.post("/datasets", json=body), 409)["hint"]
    assert (await rig.post("/datasets", json={**body, "adopt": True})).status_code == 201
    assert (await rig.ask("DELETE", "/datasets/vol?purge=true")).status_code == 204
    assert not Path(made["path"]).exists()


async def test_variables(rig: Rig) -> None:
    ann = await rig.token_of("ann", "red")
    body = {"name": "env", "kind": "env", "everyone": True, "variables": {"TOKEN": "hush-hush"}}
    made = await rig.post("/datasets", json=body)
    assert made.status_code == 201
    shown = [
        made,
        await rig.get("/datasets"),
        await rig.get("/datasets/env"),
        await rig.get("/datasets/env", headers=ann),
    ]
    shown.append(await rig.ask("PATCH", "/datasets/env", json={"variables": {"OTHER": "hush-hush"}}))
    assert not any("hush-hush" in response.text for response in shown)
    assert (await rig.get("/datasets/env/variables")).json() == {"variables": {"OTHER": "hush-hush"}}
    error_of(await rig.get("/datasets/env/variables", headers=ann), 403)
    refused = await rig.ask("PATCH", "/datasets/env", json={"variables": {"A": ["hush-hush"]}})
    error_of(refused, 400)
    assert "hush-hush" not in refused.text


async def test_git(rig: Rig, tmp_path: Path) -> None:
    ann = await rig.token_of("ann", "red")
    repository = Repository(tmp_path / "code")
    commit = repository.commit(readme="one")
    body = {"name": "code", "kind": "git", "everyone": True, "data": {"url": repository.url}}
    made = (await rig.post("/datasets", json=body)).json()
    assert made["read_only"]
    state = (await rig.post("/datasets/code/sync")).json()
    assert (state["commit"], state["error"], state["busy"]) == (commit, "", False)
    assert (await rig.get("/datasets/code", headers=ann)).json()["sync"] == state
    error_of(await rig.post("/datasets/code/sync", headers=ann), 403)
    error_of(await rig.post("/datasets/none/sync"), 404)


async def test_where_datasets_lie_is_told_to_admins_alone(rig: Rig, data: str) -> None:
    ann = await rig.token_of("ann", "red")
    await add(rig, "wiki", data, everyone=True)
    assert (await rig.get("/datasets/wiki")).json()["path"] == data
    assert (await rig.get("/datasets/wiki", headers=ann)).json()["path"] == ""
    assert data not in (await rig.get("/datasets", headers=ann)).text
    text = "name: a\ngroup: red\ndatasets: [wiki]\ncommand: true\n"
    assert data not in (await rig.post("/jobs/plan", content=text, headers=ann)).text
    made = (await rig.post("/jobs", content=text, headers=ann)).json()
    shown = (await rig.get(f"/jobs/{made['id']}", headers=ann)).json()
    mount = {"source": "wiki", "target": "/datasets/wiki", "read_only": True, "dataset": "wiki"}
    assert shown["job"]["roles"][0]["mounts"] == [mount]
    assert (await rig.get(f"/jobs/{made['id']}")).json()["job"]["roles"][0]["mounts"] == [{**mount, "source": data}]
    assert data not in (await rig.get(f"/jobs/{made['id']}/source", headers=ann)).text
    again = await rig.post(f"/jobs/{made['id']}/rerun", headers=ann)
    assert again.status_code == 201
    assert (await rig.get(f"/jobs/{again.json()['id']}")).json()["job"]["roles"][0]["mounts"][0]["source"] == data


async def test_a_job_shows_an_export_by_its_folder_alone(rig: Rig, data: str) -> None:
    ann = await rig.token_of("ann", "default")
    await add(rig, "far", data, kind="nfs", data={"server": "files", "path": "/export"}, everyone=True)
    made = (await rig.post("/jobs", content="name: j\ncommand: sleep 60\ndatasets: [far]\n", headers=ann)).json()
    mount = {"source": data, "target": "/datasets/far", "read_only": True, "dataset": "far"}
    assert (await rig.get(f"/jobs/{made['id']}")).json()["job"]["roles"][0]["mounts"] == [mount]
    shown = (await rig.get(f"/jobs/{made['id']}", headers=ann)).json()["job"]["roles"][0]["mounts"]
    assert shown == [{**mount, "source": "far"}]


async def test_a_dataset_that_is_gone_is_told_of_without_its_path(rig: Rig, data: str) -> None:
    ann = await rig.token_of("ann", "red")
    await add(rig, "wiki", data, everyone=True)
    Path(data).rmdir()
    refused = error_of(await rig.post("/jobs", content="name: a\ndatasets: [wiki]\ncommand: true\n", headers=ann), 503)
    assert refused["message"] == "The dataset wiki cannot be mounted now: its folder does not exist on the server"
