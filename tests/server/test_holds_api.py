"""Failed tasks that are kept, over HTTP."""

from __future__ import annotations

from typing import Any

import pytest

from .rig import Rig, error_of

pytestmark = pytest.mark.anyio

CRASH = "name: crash\ncommand: exit 3\n"


async def held(rig: Rig, hold: str = "true") -> str:
    rig.house.controller.clock = rig.house.clock.now
    sent = await rig.post("/jobs", content=CRASH, params={"hold": hold})
    assert sent.status_code == 201, sent.text
    id = str(sent.json()["id"])
    found = (await rig.get(f"/jobs/{id}/wait", params={"timeout": 20, "held": True})).json()
    assert found["state"] == "Held"
    return id


async def hold_of(rig: Rig, id: str, **change: Any) -> dict[str, Any]:
    answered = await rig.post(f"/jobs/{id}/hold", json=change) if change else await rig.get(f"/jobs/{id}/hold")
    assert answered.status_code == 200, answered.text
    (task,) = answered.json()["tasks"]
    return dict(task)


async def test_a_held_job_says_so(rig: Rig) -> None:
    id = await held(rig)
    detail = (await rig.get(f"/jobs/{id}")).json()
    expected = {"since": "2026-03-01T12:00:00Z", "until": "2026-03-08T12:00:00Z", "keep": "all", "ended": False}
    (task,) = detail["tasks"]
    assert (task["state"], task["held"], task["exit"]["code"]) == ("Held", expected, 3)
    assert (detail["held_until"], detail["exit_code"]) == ("2026-03-08T12:00:00Z", None)
    listed = (await rig.get("/jobs", params={"state": "Held"})).json()
    assert [job["held_until"] for job in listed["items"]] == ["2026-03-08T12:00:00Z"]
    assert await hold_of(rig, id) == {"task": "main-0", "latest": "2026-03-29T12:00:00Z", **expected}


async def test_extending(rig: Rig) -> None:
    id = await held(rig, "2d")
    assert (await hold_of(rig, id))["until"] == "2026-03-03T12:00:00Z"
    assert (await hold_of(rig, id, **{"for": "3d"}))["until"] == "2026-03-06T12:00:00Z"
    assert (await hold_of(rig, id, **{"for": 3600, "task": "main-0"}))["until"] == "2026-03-06T13:00:00Z"
    assert (await hold_of(rig, id, until="2026-03-20T00:00:00Z"))["until"] == "2026-03-20T00:00:00Z"
    usual = await rig.post(f"/jobs/{id}/hold")
    assert usual.json()["tasks"][0]["until"] == "2026-03-27T00:00:00Z"
    error = error_of(await rig.post(f"/jobs/{id}/hold", json={"until": "2026-06-01T00:00:00Z"}), 400)
    assert (error["field"], "can be held only until 2026-03-29 12:00 UTC" in error["message"]) == ("until", True)
    for wrong in ("3 parsecs", "", "-1d", 0, -5, 1e300, "0s"):
        error_of(await rig.post(f"/jobs/{id}/hold", json={"for": wrong}), 400)
    for body in (
        {"until": "soon"},
        {"longer": "3d"},
        {"keep": "all"},
        {"task": 3},
        {"for": "1d", "until": "2026-03-05"},
    ):
        error_of(await rig.post(f"/jobs/{id}/hold", json=body), 400)
    error_of(await rig.post(f"/jobs/{id}/hold", json={"task": "main-9"}), 404)
    assert (await hold_of(rig, id))["until"] == "2026-03-27T00:00:00Z"


async def test_only_files_then_nothing(rig: Rig) -> None:
    id = await held(rig)
    task = await hold_of(rig, id, keep="files", **{"for": "1d"})
    assert (task["keep"], task["until"]) == ("files", "2026-03-09T12:00:00Z")
    error_of(await rig.post(f"/jobs/{id}/hold", json={"keep": "files"}), 409)
    released = await rig.ask("DELETE", f"/jobs/{id}/hold", params={"task": "main-0"})
    assert (released.status_code, released.json()["released"]) == (202, ["main-0"])
    ended = (await rig.get(f"/jobs/{id}/wait", params={"timeout": 20})).json()
    assert (ended["state"], ended["exit_code"], ended["held_until"]) == ("Failed", 3, None)
    assert error_of(await rig.ask("DELETE", f"/jobs/{id}/hold"), 409)["hint"]
    task = (await rig.get(f"/jobs/{id}/tasks")).json()["items"][0]
    assert (task["held"]["keep"], task["held"]["ended"]) == ("files", True)  # it was


async def test_hold_and_no_hold_by_query(rig: Rig) -> None:
    refused = error_of(await rig.post("/jobs", content=CRASH, params={"hold": "perhaps"}), 400)
    assert refused["field"] == "hold"
    planned = await rig.post("/jobs/plan", content=CRASH, params={"hold": "files:2d"})
    assert planned.json()["job"]["hold"] == {"duration": 172800, "keep": "files"}
    id = await held(rig, "files")
    again = await rig.post(f"/jobs/{id}/rerun", params={"hold": "false"})
    ended = (await rig.get(f"/jobs/{again.json()['id']}/wait", params={"timeout": 20, "held": True})).json()
    assert ended["state"] == "Failed"
    error_of(await rig.post(f"/jobs/{id}/rerun", params={"hold": "?"}), 400)


async def test_a_groups_hold(rig: Rig) -> None:
    made = await rig.post("/groups", json={"name": "red", "hold": "files:12h"})
    assert (made.status_code, made.json()["hold"]) == (201, "files:12h")
    for word, shown in (("7d", "7d"), ("on", "on"), ("off", None), ("files", "files"), (None, None)):
        changed = await rig.ask("PATCH", "/groups/red", json={"hold": word})
        assert changed.json()["hold"] == shown
    assert (await rig.ask("PATCH", "/groups/red", json={"hold": "2d"})).json()["hold"] == "2d"
    unsaid = await rig.ask("PATCH", "/groups/red", json={"description": "x"})
    assert unsaid.json()["hold"] == "2d"
    assert error_of(await rig.ask("PATCH", "/groups/red", json={"hold": "much"}), 400)["field"] == "hold"
    sent = await rig.post("/jobs", content=CRASH, params={"group": "red"})
    assert (await rig.get(f"/jobs/{sent.json()['id']}")).json()["job"]["hold"] == {"duration": 172800, "keep": "all"}


async def test_following_a_log_ends_with_the_hold_where_that_is_asked_for(rig: Rig) -> None:
    id = await held(rig)
    followed = await rig.get(f"/jobs/{id}/log", params={"follow": True, "held": True})
    assert "job has finished with exit code 3\n" in followed.text
    assert "it will be reserved for 1 week" in followed.text
    read = await rig.get(f"/jobs/{id}/log")
    assert (read.headers["x-log-held"], read.headers["x-log-complete"], read.text) == ("true", "false", followed.text)
