from __future__ import annotations

import asyncio
import json

import pytest

from .rig import Rig, error_of

pytestmark = pytest.mark.anyio

HELLO = "name: hello\ncommand: echo hello\n"
SLEEPER = "name: sleeper\ncommand: sleep 100\n"


async def submit(rig: Rig, text: str = HELLO, **more: object) -> dict[str, object]:
    response = await rig.post("/jobs", content=text, **more)
    assert response.status_code in (200, 201), response.text
    return dict(response.json())


async def test_submit_and_show(rig: Rig) -> None:
    job = await submit(rig)
    assert (job["name"], job["state"], job["user"], job["warnings"]) == ("hello", "Pending", "admin", [])
    ended = (await rig.get(f"/jobs/{job['id']}/wait", params={"timeout": 20})).json()
    assert (ended["state"], ended["exit_code"]) == ("Succeeded", 0)
    assert ended["finished_at"].endswith("Z")
    for ref in (job["id"], "hello", str(job["id"])[-6:]):
        detail = (await rig.get(f"/jobs/{ref}")).json()
        assert detail["id"] == job["id"]
    assert detail["tasks"][0]["exit"]["kind"] == "succeeded"
    assert detail["tasks"][0]["logs"] == "kept"
    assert detail["job"]["roles"][0]["commands"] == ["echo hello"]
    assert detail["time_limit"] == 86400


async def test_every_dialect_and_content_type(rig: Rig) -> None:
    as_json = json.dumps({"name": "j", "command": "exit 0"})
    openpai = (
        "protocolVersion: 2\nname: pai\ntype: job\nprerequisites: [{type: dockerimage, name: i, uri: host}]\n"
        "taskRoles: {t: {instances: 1, dockerImage: i, commands: [exit 0],"
        " resourcePerInstance: {cpu: 1, memoryMB: 64, gpu: 0}}}\n"
    )
    for text, kind, dialect in (
        (as_json, "application/json", "holdfast"),
        (HELLO, "text/yaml", "holdfast"),
        (HELLO, "application/x-www-form-urlencoded", "holdfast"),
        (openpai, "text/plain", "openpai-v2"),
    ):
        job = await submit(rig, text, headers={"Content-Type": kind})
        assert job["dialect"] == dialect


async def test_a_repeated_key_is_answered_with_the_first_job(rig: Rig) -> None:
    first = await rig.post("/jobs", content=SLEEPER, headers={"Idempotency-Key": "k"})
    again = await rig.post("/jobs", content=SLEEPER, headers={"Idempotency-Key": "k"})
    assert (first.status_code, again.status_code) == (201, 200)
    assert first.json()["id"] == again.json()["id"]
    error = error_of(await rig.post("/jobs", content=HELLO, headers={"Idempotency-Key": "k"}), 409)
    assert error["code"] == "conflict"
    error_of(await rig.post("/jobs", content=HELLO, headers={"Idempotency-Key": "x" * 201}), 400)


async def test_a_bad_file_is_refused_with_every_problem(rig: Rig) -> None:
    error = error_of(await rig.post("/jobs", content="name: ok\nresources: {cpu: -1}\ncomand: x\n"), 400)
    assert error["code"] == "invalid_job"
    assert len(error["problems"]) >= 2
    assert any(problem["line"] == 2 for problem in error["problems"])
    for problem in error["problems"]:
        assert set(problem) == {"field", "message", "message_data", "hint", "hint_data", "line"}
    (known,) = [problem for problem in error["problems"] if problem["field"] == "comand"]
    assert known["message_data"] == {"id": "is not a known field", "args": {}}
    assert known["hint_data"] == {"id": "Did you mean {value}?", "args": {"value": "'command'"}}


HOSTILE = [b"", b"\xff\xfe\x00", b"\0", b"[]", b"3", b"{" * 10_000, b"a: &a [*a, *a]", b"name: \xc3\x28"]


async def test_hostile_files_are_refused(rig: Rig) -> None:
    for body in HOSTILE:
        for path in ("/jobs", "/jobs/plan"):
            error_of(await rig.post(path, content=body), 400)


async def test_a_plan_shows_whether_the_job_sees_its_groups_files(rig: Rig) -> None:
    for text, asked in ((HELLO, False), (f"{HELLO}files: true\n", True)):
        found = (await rig.post("/jobs/plan", content=text)).json()
        assert (found["job"]["files"], "files: true" in found["yaml"]) == (asked, asked)


async def test_plan(rig: Rig) -> None:
    response = await rig.post("/jobs/plan", content=f"{HELLO}resources: {{cpu: 99}}\n")
    plan = response.json()
    assert (plan["verdict"], plan["dialect"]) == ("never", "holdfast")
    assert plan["reasons"]
    assert (await rig.get("/jobs")).json()["items"] == []


async def test_group_and_dialect_can_be_chosen(rig: Rig) -> None:
    await rig.house.add_group("lab")
    job = await submit(rig, params={"group": "lab", "dialect": "holdfast", "unknown": "ignored"})
    assert job["group"] == "lab"
    assert error_of(await rig.post("/jobs", content=HELLO, params={"group": "nowhere"}), 404)["field"] == "group"
    assert error_of(await rig.post("/jobs", content=HELLO, params={"dialect": "slurm"}), 400)["field"] == "dialect"


async def test_list_filters_and_pages(rig: Rig) -> None:
    alice = await rig.token_of("alice", "lab")
    ids = [(await submit(rig, f"name: job-{n}\ncommand: sleep 9\nresources: {{cpu: 0.1}}\n"))["id"] for n in range(5)]
    hers = await submit(rig, "name: hers\ncommand: sleep 9\n", headers=alice)

    async def listed(**params: object) -> list[object]:
        response = await rig.get("/jobs", params=params)
        return [item["id"] for item in response.json()["items"]]

    assert await listed() == [hers["id"], *reversed(ids)]
    assert await listed(group="lab") == [hers["id"]]
    assert await listed(group="lab,default") == await listed()
    assert await listed(user="alice") == [hers["id"]]
    assert await listed(mine=True) == list(reversed(ids))
    assert await listed(text="job-3") == [ids[3]]
    assert await listed(state="Succeeded,Failed") == []
    assert set(await listed(state="running,PENDING,preparing")) == {*ids, hers["id"]}
    assert await listed(after="2026-03-02T00:00:00Z") == []
    assert await listed(before="2026-03-02T00:00:00+00:00") == await listed()
    seen, cursor = [], None
    while True:
        page = (await rig.get("/jobs", params={"limit": 2, **({"cursor": cursor} if cursor else {})})).json()
        seen += [item["id"] for item in page["items"]]
        cursor = page["next"]
        if cursor is None:
            break
    assert seen == await listed()
    own = (await rig.get("/jobs", headers=alice)).json()["items"]
    assert [item["id"] for item in own] == [hers["id"]]
    error_of(await rig.get("/jobs", params={"group": "default"}, headers=alice), 404)


async def test_bad_parameters_are_named(rig: Rig) -> None:
    bad = [
        ("limit", 0),
        ("limit", 501),
        ("limit", "many"),
        ("state", "Sleeping"),
        ("after", "yesterday"),
        ("before", "99999-01-01"),
        ("mine", "perhaps"),
        ("cursor", "../../x"),
        ("text", "x" * 201),
    ]
    for field, value in bad:
        assert error_of(await rig.get("/jobs", params={field: value}), 400)["field"] == field


async def test_stop(rig: Rig) -> None:
    job = await submit(rig, SLEEPER)
    response = await rig.post(f"/jobs/{job['id']}/stop")
    assert response.status_code == 202
    await rig.house.until(str(job["id"]))
    response = await rig.post(f"/jobs/{job['id']}/stop")
    assert (response.status_code, response.json()["state"]) == (200, "Cancelled")
    detail = (await rig.get(f"/jobs/{job['id']}")).json()
    assert detail["stop"]["actor"] == "admin"


async def test_stop_many(rig: Rig) -> None:
    ids = [(await submit(rig, SLEEPER))["id"] for _ in range(3)]
    response = await rig.post("/jobs/stop", json={"jobs": [*ids, "nothing"]})
    assert response.json()["stopped"] == ids
    assert [failure["job"] for failure in response.json()["failed"]] == ["nothing"]
    for bad in ({"jobs": []}, {"jobs": "x"}, {"jobs": [3]}, {}, {"job": []}, []):
        error_of(await rig.post("/jobs/stop", json=bad), 400)


async def test_rerun_source_and_yaml(rig: Rig) -> None:
    text = f"# a comment\n{HELLO}"
    job = await submit(rig, text)
    again = await rig.post(f"/jobs/{job['id']}/rerun")
    assert again.status_code == 201
    assert again.json()["rerun_of"] == job["id"]
    source = await rig.get(f"/jobs/{job['id']}/source")
    assert source.text == text
    assert source.headers["content-type"] == "text/plain; charset=utf-8"
    yaml = await rig.get(f"/jobs/{job['id']}/yaml")
    assert yaml.headers["content-type"].startswith("text/yaml")
    await submit(rig, yaml.text)


async def test_events_tasks_and_attempts(rig: Rig) -> None:
    job = await submit(rig, "name: r\nretry: 1\ncommand: exit 1\n")
    await rig.house.until(str(job["id"]))
    events = (await rig.get(f"/jobs/{job['id']}/events")).json()
    assert events["items"][0]["kind"] == "submitted"
    assert events["next"] is None
    page = (await rig.get(f"/jobs/{job['id']}/events", params={"limit": 1})).json()
    assert page["next"] == page["items"][0]["seq"]
    after = (await rig.get(f"/jobs/{job['id']}/events", params={"after": page["next"]})).json()
    assert after["items"] == events["items"][1:]
    tasks = (await rig.get(f"/jobs/{job['id']}/tasks")).json()
    assert [task["attempt"] for task in tasks["items"]] == [1]
    attempts = (await rig.get(f"/jobs/{job['id']}/attempts")).json()
    assert [each["attempt"] for each in attempts["items"]] == [1, 0]


async def test_wait_is_a_long_poll(rig: Rig) -> None:
    job = await submit(rig, SLEEPER)
    waiting = asyncio.create_task(rig.get(f"/jobs/{job['id']}/wait", params={"timeout": 60}))
    await rig.post(f"/jobs/{job['id']}/stop")
    response = await asyncio.wait_for(waiting, 20)
    assert response.json()["state"] == "Cancelled"
    for bad in (-1, 61, "nan", "x"):
        error_of(await rig.get(f"/jobs/{job['id']}/wait", params={"timeout": bad}), 400)


ODD = ["nothing", "..", "%2e%2e", "..%2F..%2Fetc%2Fpasswd", "%00", "x" * 3000, "%F0%9F%90%99", "'--"]


async def test_odd_refs_are_not_there(rig: Rig) -> None:
    for ref in ODD:
        for path in ("", "/log", "/events", "/yaml", "/tasks", "/wait"):
            error_of(await rig.get(f"/jobs/{ref}{path}"), 404)


async def test_others_jobs_are_not_there(rig: Rig) -> None:
    await submit(rig, SLEEPER)
    alice = await rig.token_of("alice", "lab")
    for path in ("", "/log", "/events", "/yaml", "/source", "/tasks", "/attempts", "/wait", "/log/follow"):
        assert error_of(await rig.get(f"/jobs/sleeper{path}", headers=alice), 404)["code"] == "not_found"
    for path in ("/stop", "/rerun"):
        error_of(await rig.post(f"/jobs/sleeper{path}", headers=alice), 404)
