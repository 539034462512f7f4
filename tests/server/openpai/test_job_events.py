"""What happened to a job, as OpenPAI's clients read it."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import pytest

from holdfast.core.identity import build_container_uid
from holdfast.core.scheduling.placement import Node
from holdfast.core.states import JobState
from holdfast.server.openpai.jobs import events as job_events
from tests.fake_engine import FakeEngine

from .job_files import job, role
from .pai import Pai, open_pai

pytestmark = pytest.mark.anyio

KEYS = {
    "uid", "frameworkName", "podUid", "taskroleName", "taskName", "taskIndex", "type", "reason", "message",
    "firstTimestamp", "lastTimestamp", "count", "sourceComponent", "sourceHost",
}  # fmt: skip


async def events(pai: Pai, query: str = "") -> list[dict[str, Any]]:
    response = await pai.user.get(f"/v2/jobs/alice~train/events{query}")
    assert response.status_code == 200, response.text
    body = response.json()
    assert set(body) == {"totalCount", "data"}
    assert body["totalCount"] == len(body["data"])
    times = [each["lastTimestamp"] for each in body["data"]]
    assert times == sorted(times, reverse=True)
    for each in body["data"]:
        assert set(each) == KEYS
    found: list[dict[str, Any]] = body["data"]
    return found


async def test_newest_first_with_all_kinds(pai: Pai) -> None:
    await pai.house.run(job(roles={"The_worker": role("exit 3")}, jobRetryCount=1), pai.alice)
    found = await events(pai)
    assert found[0]["reason"] == "Failed"
    assert {"Created", "Scheduled", "Started", "BackOff", "Failed"} <= {each["reason"] for each in found}
    assert len({each["uid"] for each in found}) == len(found)
    warnings = await events(pai, "?type=Warning")
    normal = await events(pai, "?type=Normal")
    assert {each["type"] for each in warnings} == {"Warning"}
    assert {each["reason"] for each in warnings} == {"Failed", "BackOff"}
    assert len(warnings) + len(normal) == len(found)
    assert await events(pai, "?type=Nonsense") == []
    assert await events(pai, "?type=") == found


async def test_events_of_tasks_name_their_try(pai: Pai) -> None:
    text = job(roles={"The_worker": role("exit 3", taskRetryCount=1)}, extras={"gangAllocation": False})
    made = await pai.house.run(text, pai.alice)
    failed = [each for each in await events(pai) if each["reason"] == "Failed" and each["taskIndex"] is not None]
    assert len(failed) == 2
    name = hashlib.md5(b"alice~train").hexdigest()
    for number, each in enumerate(reversed(failed)):
        assert (each["frameworkName"], each["taskName"]) == (name, f"{name}-theworker-0")
        assert (each["taskroleName"], each["taskIndex"]) == ("theworker", 0)
        assert each["podUid"] == build_container_uid(f"{made.id}.0.The_worker-0.{number}")


async def test_a_refused_job(pai: Pai) -> None:
    await pai.house.run(job(roles={"worker": role(asked={"gpu": 64})}), pai.alice)
    found = await events(pai, "?type=Warning")
    refusal = next(each for each in found if each["reason"] == "CreateFrameworkPermanentFailed")
    assert "System Error" in refusal["message"]


async def test_a_job_that_waits_for_room(tmp_path: Path) -> None:
    engine = FakeEngine(nodes=[Node(name="n1", cpu=1, memory=2**33)])
    async with open_pai(tmp_path / "home", engine=engine) as pai:
        first = await pai.house.submit(json.dumps({"name": "first", "command": "sleep 9"}), pai.alice)
        await pai.house.until(first.id, JobState.RUNNING)
        made = await pai.house.submit(job(), pai.alice)
        await pai.house.controller.wait_for_change(made.id, 0.2)
        found = await events(pai, "?type=Warning")
        assert {each["reason"] for each in found} == {"FailedScheduling"}
        assert found[0]["message"]
        assert found[0]["firstTimestamp"] <= found[0]["lastTimestamp"]
        pai.house.engine.finish_task(pai.house.engine.list_running()[0])
        await pai.house.until(made.id)
        assert "FailedScheduling" not in {each["reason"] for each in await events(pai)}


async def test_only_the_newest_of_very_many_are_shown(pai: Pai, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(job_events, "_PAGE_SIZE", 2)
    await pai.house.run(job(roles={"worker": role("exit 3")}, jobRetryCount=2), pai.alice)
    every = await events(pai)
    monkeypatch.setattr(job_events, "MAX_EVENTS", 3)
    body = (await pai.user.get("/v2/jobs/alice~train/events")).json()
    assert body["totalCount"] == len(every)
    assert body["data"] == every[:3]
