"""What jobs use, over HTTP."""

from __future__ import annotations

from pathlib import Path

import pytest

from holdfast.core.states import JobState
from tests.services.house import open_house
from tests.services.recorded_metrics import GIB, MIB, START, record_steady

from .rig import Rig, error_of, open_rig

pytestmark = pytest.mark.anyio

PAIR = "name: pair\nroles: {w: {instances: 2, command: sleep 100}}\n"


async def pair(rig: Rig) -> str:
    job = await rig.house.submit(PAIR)
    await rig.house.until(job.id, JobState.RUNNING)
    database = rig.house.services.metrics.database
    await record_steady(database, f"{job.id}.0.w-0.0", cpu=100, gpus=(10.0, 30.0), seconds=100)
    await record_steady(database, f"{job.id}.0.w-1.0", cpu=300, seconds=100)
    return job.id


async def test_series(rig: Rig) -> None:
    id = await pair(rig)
    answered = await rig.get(f"/jobs/{id}/metrics")
    assert answered.status_code == 200, answered.text
    found = answered.json()
    head = {name: found[name] for name in ("job", "attempt", "ring", "interval", "span", "tasks", "averaged")}
    assert head == {
        "job": id, "attempt": 0, "ring": "15m", "interval": 10, "span": 900, "tasks": 2, "averaged": 2,
    }  # fmt: skip
    assert found["limits"] == {"cpu": 1, "memory": GIB, "gpu": 0, "gpu_memory": 8 * GIB}
    assert (found["measured"], found["final"]) == (True, False)
    assert [point["at"] for point in found["points"]] == [START + 10 * n for n in range(1, 11)]
    assert found["points"][0] == {
        "at": START + 10, "seconds": 10, "tasks": 2, "cpu": 200, "memory": 100 * MIB, "net_in": 1000, "net_out": 500,
        "disk_read": 4096, "disk_written": 0, "throttled": 0, "disk_wait": 0, "gpu": 20, "gpu_memory": 1.5 * GIB,
        "gpus": [],
    }  # fmt: skip
    task = (await rig.get(f"/jobs/{id}/metrics", params={"task": "w-0", "ring": "lifetime", "attempt": 0})).json()
    assert (task["span"], task["points"][0]["seconds"]) == (None, 100)
    assert task["points"][0]["gpus"] == [
        {"index": 0, "percent": 10, "memory": GIB},
        {"index": 1, "percent": 30, "memory": 2 * GIB},
    ]


async def test_an_answer_that_is_known_is_not_sent_again(rig: Rig) -> None:
    id = await pair(rig)
    first = await rig.get(f"/jobs/{id}/metrics")
    known = {"If-None-Match": first.headers["etag"]}
    again = await rig.get(f"/jobs/{id}/metrics", headers=known)
    assert (again.status_code, again.content, again.headers["etag"]) == (304, b"", first.headers["etag"])
    database = rig.house.services.metrics.database
    await record_steady(database, f"{id}.0.w-1.0", cpu=300, seconds=110)
    later = await rig.get(f"/jobs/{id}/metrics", headers=known)
    assert (later.status_code, len(later.json()["points"])) == (200, 11)


async def test_now(rig: Rig) -> None:
    id = await pair(rig)
    answered = await rig.get(f"/jobs/{id}/metrics/now")
    found = answered.json()
    assert (found["name"], found["state"], found["total"], found["measured"]) == ("pair", "Running", 2, True)
    first = found["tasks"][0]
    assert (first["task"], first["node"], first["cpu_asked"]) == ("w-0", "fake", 1)
    assert (first["metrics"]["cpu"], first["metrics"]["memory_limit"], first["metrics"]["processes"]) == (100, GIB, 3)
    assert first["metrics"]["gpus"][1] == {"index": 1, "percent": 30, "memory": 2 * GIB, "memory_total": 8 * GIB}
    everything = (await rig.get("/metrics/now")).json()
    assert everything["jobs"][id] == everything["nodes"]["fake"] == everything["groups"]["default"]
    assert (everything["jobs"][id]["cpu"], everything["jobs"][id]["gpu"]) == (400, 20)


async def test_a_job_that_has_just_begun_has_none_yet(rig: Rig) -> None:
    job = await rig.house.submit(PAIR)
    await rig.house.until(job.id, JobState.RUNNING)
    now = (await rig.get(f"/jobs/{job.id}/metrics/now")).json()
    assert [task["metrics"] for task in now["tasks"]] == [None, None]
    assert (await rig.get(f"/jobs/{job.id}/metrics")).json()["points"] == []


async def test_who_may_not_and_what_is_wrong(rig: Rig) -> None:
    id = await pair(rig)
    eve = await rig.token_of("eve", "blue")
    for path in (f"/jobs/{id}/metrics", f"/jobs/{id}/metrics/now"):
        error_of(await rig.get(path, headers=eve), 404)
        assert (await rig.get(path, headers={"Authorization": ""})).status_code == 401
    everything = (await rig.get("/metrics/now", headers=eve)).json()
    assert everything["jobs"] == {}
    error = error_of(await rig.get(f"/jobs/{id}/metrics", params={"ring": "2h"}), 400)
    assert (error["field"], error["hint"]) == ("ring", "Known values: 15m, 1h, 3h, lifetime.")
    assert error_of(await rig.get(f"/jobs/{id}/metrics", params={"role": "x"}), 404)["field"] == "role"
    assert error_of(await rig.get(f"/jobs/{id}/metrics", params={"task": "w-7"}), 404)["field"] == "task"
    error_of(await rig.get(f"/jobs/{id}/metrics", params={"attempt": -1}), 400)


async def test_where_nothing_is_measured_that_is_said(tmp_path: Path) -> None:
    settings = {"metrics": {"enabled": False}}
    async with open_house(tmp_path / "home", settings=settings) as house, open_rig(house) as rig:
        job = await house.submit(PAIR)
        for path in (f"/jobs/{job.id}/metrics", f"/jobs/{job.id}/metrics/now", "/metrics/now"):
            assert (await rig.get(path)).json()["measured"] is False
