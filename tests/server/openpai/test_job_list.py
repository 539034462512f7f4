"""The job list: filters, orders, pages."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from holdfast.core.states import JobState

from .job_files import job, role
from .pai import Pai, open_pai, refused

pytestmark = pytest.mark.anyio

KEYS = {
    "debugId", "name", "username", "state", "subState", "executionType", "tags", "retries", "retryDetails",
    "retryDelayTime", "submissionTime", "createdTime", "launchedTime", "completedTime", "appExitCode",
    "virtualCluster", "totalGpuNumber", "totalTaskNumber", "totalTaskRoleNumber", "jobPriority",
}  # fmt: skip


async def names(pai: Pai, **query: Any) -> list[str]:
    response = await pai.admin.get("/v2/jobs", params=query)
    assert response.status_code == 200, response.text
    return [each["name"] for each in response.json()]


async def fill(pai: Pai) -> None:
    """One job of each kind; each a second after the one before."""
    bob = await pai.house.user("bob", "lab")
    prod = {"hivedScheduler": {"jobPriorityClass": "prod"}}
    oppo = {"hivedScheduler": {"jobPriorityClass": "oppo"}}
    test = {"hivedScheduler": {"jobPriorityClass": "test"}}
    two = {"a": role("exit 3", instances=2), "b": role("sleep 9")}
    for actor, text, last in (
        (pai.alice, job("good", extras=prod), JobState.SUCCEEDED),
        (pai.alice, job("bad", two, jobRetryCount=1, extras=oppo), JobState.FAILED),
        (bob, job("Long", {"w": role("sleep 9")}, defaults={"virtualCluster": "lab"}, extras=test), JobState.RUNNING),
        (bob, job("stopped", {"w": role("sleep 9")}, defaults={"virtualCluster": "lab"}), JobState.RUNNING),
        (pai.alice, job("waits", {"w": role(asked={"cpu": 4})}), JobState.PENDING),
    ):
        pai.house.clock.forward(1)
        made = await pai.house.submit(text, actor)
        await pai.house.until(made.id, last)
        if made.name == "stopped":
            await pai.house.services.jobs.stop(bob, made.id)
            await pai.house.until(made.id)
        if made.name == "good":
            await pai.house.services.jobs.tag(actor, made.id, "one")
            await pai.house.services.jobs.tag(actor, made.id, "two")
        if made.name == "bad":
            await pai.house.services.jobs.tag(actor, made.id, "two")


async def test_an_item(pai: Pai) -> None:
    await pai.house.run(job(roles={"a": role("exit 3", instances=2), "b": role()}, jobRetryCount=1), pai.alice)
    (item,) = (await pai.user.get("/v2/jobs")).json()
    assert set(item) == KEYS
    assert (item["name"], item["username"], item["virtualCluster"]) == ("train", "alice", "default")
    assert (item["totalTaskNumber"], item["totalTaskRoleNumber"], item["totalGpuNumber"]) == (3, 2, 0)
    assert item["jobPriority"] is None
    assert item["submissionTime"] == round(pai.house.clock.now().timestamp() * 1000)
    detail = (await pai.user.get("/v2/jobs/alice~train")).json()
    for key in KEYS - {"name", "debugId", "tags", "jobPriority"}:
        if key in detail["jobStatus"]:
            assert item[key] == detail["jobStatus"][key], key


FILTERS: list[tuple[dict[str, Any], list[str]]] = [
    ({}, ["waits", "stopped", "Long", "bad", "good"]),
    ({"username": "bob"}, ["stopped", "Long"]),
    ({"username": "bob,alice"}, ["waits", "stopped", "Long", "bad", "good"]),
    ({"username": "nobody"}, []),
    ({"username": ""}, ["waits", "stopped", "Long", "bad", "good"]),
    ({"vc": "lab"}, ["stopped", "Long"]),
    ({"vc": "lab,default", "username": "alice"}, ["waits", "bad", "good"]),
    ({"vc": "nowhere"}, []),
    ({"state": "WAITING"}, ["waits"]),
    ({"state": "RUNNING"}, ["Long"]),
    ({"state": "STOPPED"}, ["stopped"]),
    ({"state": "STOPPING"}, []),
    ({"state": "SUCCEEDED,FAILED"}, ["bad", "good"]),
    ({"state": "SUCCEEDED,NONSENSE"}, ["good"]),
    ({"state": "NONSENSE"}, []),
    ({"state": "succeeded"}, []),
    ({"state": "UNKNOWN"}, []),
    ({"keyword": "lo"}, ["Long"]),
    ({"keyword": "lab"}, ["stopped", "Long"]),
    ({"keyword": "bob"}, ["stopped", "Long"]),
    ({"keyword": "oo"}, ["good"]),
    ({"keyword": "%"}, []),
    ({"tagsContain": "one"}, ["good"]),
    ({"tagsContain": "one,two"}, ["bad", "good"]),
    ({"tagsContain": "none"}, []),
    ({"tagsNotContain": "one"}, ["waits", "stopped", "Long", "bad"]),
    ({"tagsNotContain": "one,two"}, ["waits", "stopped", "Long"]),
    ({"tagsContain": "two", "tagsNotContain": "one"}, ["bad"]),
    ({"jobPriority": "prod"}, ["good"]),
    ({"jobPriority": "test"}, ["Long"]),
    ({"jobPriority": "oppo"}, ["bad"]),
    ({"jobPriority": "crit"}, []),
    ({"jobPriority": "default"}, ["waits", "stopped"]),
    ({"jobPriority": "default,prod"}, ["waits", "stopped", "good"]),
    ({"jobPriority": "nonsense"}, []),
    ({"keyword": "stop", "jobPriority": "default"}, ["stopped"]),
    ({"offset": 1, "limit": 2}, ["stopped", "Long"]),
    ({"offset": 5}, []),
    ({"offset": 9007199254740992}, []),
    ({"limit": 0}, []),
    ({"order": "jobName,ASC"}, ["Long", "bad", "good", "stopped", "waits"]),
    ({"order": "jobName,DESC"}, ["waits", "stopped", "good", "bad", "Long"]),
    ({"order": "submissionTime,ASC"}, ["good", "bad", "Long", "stopped", "waits"]),
    ({"order": "username,ASC"}, ["good", "bad", "waits", "Long", "stopped"]),
    ({"order": "vc,DESC"}, ["stopped", "Long", "waits", "bad", "good"]),
    ({"order": "retries,DESC", "limit": 1}, ["bad"]),
    ({"order": "totalTaskNumber,DESC", "limit": 1}, ["bad"]),
    ({"order": "totalGpuNumber,ASC"}, ["good", "bad", "Long", "stopped", "waits"]),
    ({"order": "completionTime,ASC"}, ["good", "bad", "stopped", "Long", "waits"]),
    ({"order": "completionTime,DESC"}, ["waits", "Long", "stopped", "bad", "good"]),
    ({"order": "jobPriority,ASC"}, ["bad", "Long", "good", "stopped", "waits"]),
    ({"order": "jobPriority,DESC"}, ["waits", "stopped", "good", "Long", "bad"]),
    ({"order": "nonsense,ASC"}, ["waits", "stopped", "Long", "bad", "good"]),
    ({"order": "jobName,sideways"}, ["waits", "stopped", "Long", "bad", "good"]),
    ({"order": "jobName"}, ["waits", "stopped", "Long", "bad", "good"]),
    ({"keyword": "\0"}, []),
    ({"username": "\0", "vc": "\0"}, []),
    ({"tagsContain": "\0"}, []),
    ({"keyword": "x" * 3000}, []),
    ({"username": "a," * 2000}, []),
]


async def test_every_filter_and_order(tmp_path: Path) -> None:
    async with open_pai(tmp_path / "home", {"openpai": {"lists_per_minute": 0, "requests_per_minute": 0}}) as pai:
        await fill(pai)
        for query, expected in FILTERS:
            assert await names(pai, **query) == expected, query
            counted = (await pai.admin.get("/v2/jobs", params={**query, "withTotalCount": "true"})).json()
            assert [each["name"] for each in counted["data"]] == expected
            if not {"offset", "limit"} & set(query):
                assert counted["totalCount"] == len(expected), query


async def test_by_state(tmp_path: Path) -> None:
    """In the order of the words; those alike as they were submitted."""
    async with open_pai(tmp_path / "home") as pai:
        await fill(pai)
        found = (await pai.admin.get("/v2/jobs?order=state,ASC")).json()
        assert {each["state"] for each in found} == {"FAILED", "RUNNING", "STOPPED", "SUCCEEDED", "WAITING"}
        again = (await pai.admin.get("/v2/jobs?order=state,DESC")).json()
        assert [each["name"] for each in again] == [each["name"] for each in reversed(found)]


async def test_counting(pai: Pai) -> None:
    for number in range(3):
        await pai.house.run(job(f"job{number}"), pai.alice)
    body = (await pai.user.get("/v2/jobs?withTotalCount=true&limit=0")).json()
    assert body == {"totalCount": 3, "data": []}
    body = (await pai.user.get("/v2/jobs?withTotalCount=true&limit=1&offset=1")).json()
    assert (body["totalCount"], [each["name"] for each in body["data"]]) == (3, ["job1"])
    assert isinstance((await pai.user.get("/v2/jobs?withTotalCount=false")).json(), list)
    assert (await pai.user.get("/v2/jobs?withTotalCount=true&state=NONSENSE")).json() == {"totalCount": 0, "data": []}


@pytest.mark.parametrize(
    "query", ["limit=50001", "limit=-1", "limit=x", "limit=1e3", "limit=" + "9" * 50, "offset=-1", "offset=%00"]
)
async def test_numbers_out_of_range(pai: Pai, query: str) -> None:
    refused(await pai.user.get(f"/v2/jobs?{query}"), 400, "InvalidParametersError")


async def test_the_largest_page(pai: Pai) -> None:
    assert (await pai.user.get("/v2/jobs?limit=50000")).status_code == 200


async def test_one_sees_jobs_of_ones_groups(pai: Pai) -> None:
    await pai.house.run(job("mine"), pai.alice)
    carol = await pai.new_user("carol", "lab")
    assert (await carol.get("/v2/jobs")).json() == []
    assert (await carol.get("/v2/jobs?vc=default&withTotalCount=true")).json() == {"totalCount": 0, "data": []}
    refused(await pai.guest.get("/v2/jobs"), 401, "UnauthorizedUserError")


async def test_all_read_all_where_the_admin_says_so(tmp_path: Path) -> None:
    async with open_pai(tmp_path / "home", {"access": {"reading": "users"}}) as pai:
        await pai.house.run(job("mine"), pai.alice)
        carol = await pai.new_user("carol", "lab")
        assert [each["name"] for each in (await carol.get("/v2/jobs")).json()] == ["mine"]
        assert (await carol.get("/v2/jobs/alice~mine")).status_code == 200
        stop = await carol.put("/v2/jobs/alice~mine/executionType", json={"value": "STOP"})
        refused(stop, 403, "ForbiddenUserError")


async def test_guests_read_where_the_admin_says_so(tmp_path: Path) -> None:
    async with open_pai(tmp_path / "home", {"access": {"reading": "anyone"}}) as pai:
        await pai.house.run(job("mine"), pai.alice)
        assert [each["name"] for each in (await pai.guest.get("/v2/jobs")).json()] == ["mine"]
        for more in ("", "/attempts/0", "/config", "/events", "/job-attempts"):
            assert (await pai.guest.get(f"/v2/jobs/alice~mine{more}")).status_code == 200, more
        stop = await pai.guest.put("/v2/jobs/alice~mine/executionType", json={"value": "STOP"})
        refused(stop, 401, "UnauthorizedUserError")


async def test_priorities_that_are_none_of_the_classes(pai: Pai) -> None:
    await pai.house.submit(json.dumps({"name": "p", "command": "sleep 9", "priority": 100}), pai.alice)
    await pai.house.submit(json.dumps({"name": "q", "command": "sleep 9", "priority": 99}), pai.alice)
    found = {each["name"]: each["jobPriority"] for each in (await pai.user.get("/v2/jobs")).json()}
    assert found == {"p": "prod", "q": None}
