"""Stopping and tagging, by whom it is allowed."""

from __future__ import annotations

import json
from typing import Any

import httpx
import pytest

from holdfast.core.states import JobState

from .job_files import job, role
from .pai import Pai, refused

pytestmark = pytest.mark.anyio

TAG = "/v2/jobs/alice~train/tag"
EXECUTION = "/v2/jobs/alice~train/executionType"


@pytest.fixture
async def running(pai: Pai) -> Pai:
    made = await pai.house.submit(job(roles={"worker": role("sleep 9")}), pai.alice)
    await pai.house.until(made.id, JobState.RUNNING)
    return pai


async def status(pai: Pai) -> dict[str, Any]:
    found: dict[str, Any] = (await pai.user.get("/v2/jobs/alice~train")).json()
    return found


async def test_stop_and_start(running: Pai) -> None:
    response = await running.user.put(EXECUTION, json={"value": "START"})
    assert response.status_code == 202
    assert (await status(running))["jobStatus"]["state"] == "RUNNING"
    response = await running.user.put(EXECUTION, json={"value": "STOP"})
    assert response.status_code == 202
    assert response.json() == {"status": 202, "message": "Execute job alice~train successfully."}
    await running.house.until((await running.house.services.jobs.find_by_name(running.alice, "alice", "train")).id)
    assert (await status(running))["jobStatus"]["state"] == "STOPPED"
    for value in ("STOP", "START"):
        assert (await running.user.put(EXECUTION, json={"value": value})).status_code == 202
    assert (await status(running))["jobStatus"]["state"] == "STOPPED"


async def test_json_as_plain_text(running: Pai) -> None:
    response = await running.user.put(
        EXECUTION, content='{"value": "STOP"}', headers={"Content-Type": "text/plain;charset=UTF-8"}
    )
    assert response.status_code == 202
    assert (await status(running))["jobStatus"]["executionType"] == "STOP"


@pytest.mark.parametrize("body", [{}, {"value": "stop"}, {"value": None}, {"value": ["STOP"]}, {"value": {}}])
async def test_other_values(running: Pai, body: dict[str, Any]) -> None:
    refused(await running.user.put(EXECUTION, json=body), 400, "InvalidParametersError")
    assert (await status(running))["jobStatus"]["executionType"] == "START"


async def remove(client: httpx.AsyncClient, value: Any) -> httpx.Response:
    return await client.request("DELETE", TAG, json={"value": value})


async def test_tags(running: Pai) -> None:
    response = await running.user.put(TAG, json={"value": "my tag"})
    assert (response.status_code, response.json()) == (
        200,
        {"status": 200, "message": "Add tag my tag for job alice~train successfully."},
    )
    assert (await running.user.put(TAG, json={"value": "my tag"})).status_code == 200
    assert (await status(running))["tags"] == ["my tag"]
    response = await remove(running.user, "my tag")
    assert (response.status_code, response.json()) == (
        200,
        {"status": 200, "message": "Delete tag my tag from job alice~train successfully."},
    )
    assert (await status(running))["tags"] == []
    refused(await remove(running.user, "my tag"), 404, "NoTagError")


@pytest.mark.parametrize("tag", ["", "a,b", None, 7, ["a"], "x" * 256, "a\0b", "a\nb", "\ud800"])
async def test_what_is_no_tag(running: Pai, tag: Any) -> None:
    refused(await running.user.put(TAG, content=json.dumps({"value": tag})), 400, "InvalidParametersError")
    refused(
        await running.user.request("DELETE", TAG, content=json.dumps({"value": tag})), 400, "InvalidParametersError"
    )
    assert (await status(running))["tags"] == []


async def test_only_the_owner_and_admins(running: Pai) -> None:
    mate = await running.new_user("bob")  # of the same group: sees the job
    stranger = await running.new_user("carol", "elsewhere")
    for client, code, word in ((mate, 403, "ForbiddenUserError"), (stranger, 404, "NoJobError")):
        refused(await client.put(EXECUTION, json={"value": "STOP"}), code, word)
        refused(await client.put(TAG, json={"value": "x"}), code, word)
        refused(await remove(client, "x"), code, word)
    refused(await running.guest.put(EXECUTION, json={"value": "STOP"}), 401, "UnauthorizedUserError")
    assert (await running.admin.put(TAG, json={"value": "x"})).status_code == 200
    application = await running.application()
    assert (await application.put(TAG, json={"value": "y"})).status_code == 200
    assert (await status(running))["tags"] == ["x", "y"]
    assert (await running.admin.put(EXECUTION, json={"value": "STOP"})).status_code == 202


async def test_jobs_that_are_not_there(pai: Pai) -> None:
    refused(await pai.user.put(EXECUTION, json={"value": "STOP"}), 404, "NoJobError", "Job alice~train is not found.")
    refused(await pai.user.put("/v2/jobs/train/tag", json={"value": "x"}), 404, "NoJobError")
