"""Failed tasks that are kept, as OpenPAI's clients ask for them and see them: as running ones."""

from __future__ import annotations

from typing import Any

import pytest

from holdfast.core.job import Hold
from holdfast.core.states import JobState
from holdfast.services.people.groups import GroupChange

from .job_files import job, role
from .pai import Pai

pytestmark = pytest.mark.anyio

JOBS = "/v1/user/alice/jobs"


async def held(pai: Pai, name: str) -> str:
    found = await pai.house.services.jobs.find_by_name(pai.alice, "alice", name)
    assert (await pai.house.until(found.id, JobState.HELD)).state is JobState.HELD
    return found.id


async def status(pai: Pai, name: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """Of the job, and of its only task."""
    detail = (await pai.user.get(f"/v2/jobs/alice~{name}")).json()
    (task,) = detail["taskRoles"]["worker"]["taskStatuses"]
    return detail, task


async def test_is_debug_keeps_a_failed_container(pai: Pai) -> None:
    roles = [{"name": "worker", "command": "exit 7"}]
    config = {"jobName": "debug", "image": "host", "taskRoles": roles, "jobEnvs": {"isDebug": True}}
    assert (await pai.user.post(JOBS, json=config)).status_code == 202
    id = await held(pai, "debug")
    detail, task = await status(pai, "debug")
    shown = detail["jobStatus"]
    assert (shown["state"], shown["subState"], detail["tags"]) == ("RUNNING", "AttemptRunning", ["holdfast-held"])
    assert (shown["completedTime"], shown["appExitCode"], shown["retries"]) == (None, None, 0)
    assert (task["taskState"], task["attemptState"]) == ("RUNNING", "RUNNING")
    assert (task["completedTime"], task["currentAttemptCompletedTime"]) == (None, None)
    assert (task["containerExitCode"], task["containerExitSpec"]) == (None, None)
    assert (await pai.user.get(f"{JOBS}/debug")).json()["jobStatus"]["state"] == "RUNNING"
    listed = (await pai.user.get("/v2/jobs")).json()
    assert [(each["name"], each["state"]) for each in listed] == [("debug", "RUNNING")]
    for words, found in (("tagsContain=holdfast-held", 1), ("tagsContain=x,holdfast-held&state=RUNNING", 1)):
        assert len((await pai.user.get(f"/v2/jobs?{words}")).json()) == found
    for words, found in (("tagsContain=x", 0), ("tagsNotContain=holdfast-held", 0), ("tagsNotContain=x", 1)):
        assert len((await pai.user.get(f"/v2/jobs?{words}")).json()) == found
    stopped = await pai.user.put("/v2/jobs/alice~debug/executionType", json={"value": "STOP"})
    assert stopped.status_code == 202
    ended = await pai.house.until(id)
    assert (ended.state, ended.exit_code) == (JobState.FAILED, 7)
    detail, task = await status(pai, "debug")
    assert (detail["jobStatus"]["state"], detail["tags"]) == ("FAILED", [])
    assert (task["taskState"], task["completedTime"] is not None) == ("FAILED", True)


async def test_extras_of_the_second_protocol(pai: Pai) -> None:
    written = job("kept", {"worker": role("exit 2")}, extras={"holdfast": {"hold": {"for": "2d"}}})
    assert (await pai.user.post("/v2/jobs", content=written)).status_code == 202
    id = await held(pai, "kept")
    (kept,) = pai.house.services.holds.list_held_tasks(id)
    assert (kept.held.until - kept.held.since).days == 2
    again = (await pai.user.get("/v2/jobs/alice~kept/config")).text
    assert "hold" in again


async def test_a_groups_hold_counts_for_its_clients_too(pai: Pai) -> None:
    await pai.house.services.groups.change(pai.house.admin, "default", GroupChange(hold=Hold()))
    assert (await pai.user.post("/v2/jobs", content=job("first", {"worker": role("exit 2")}))).status_code == 202
    await held(pai, "first")
    never = job("never", {"worker": role("exit 2")}, extras={"holdfast": {"hold": False}})
    assert (await pai.user.post("/v2/jobs", content=never)).status_code == 202
    found = await pai.house.services.jobs.find_by_name(pai.alice, "alice", "never")
    assert (await pai.house.until(found.id)).state is JobState.FAILED
