"""The job addresses of OpenPAI's first servers: submitting, looking and stopping."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import httpx
import pytest
import yaml

from holdfast.core.states import JobState

from .job_files import job
from .pai import Pai, open_pai, refused

pytestmark = pytest.mark.anyio

JOBS = "/v1/user/alice/jobs"


def config(name: str = "train", **more: Any) -> dict[str, Any]:
    role = {"name": "worker", "command": "echo hi", **more.pop("role", {})}
    return {"jobName": name, "image": "host", "taskRoles": [role], **more}


def as_form(value: Any, prefix: str = "") -> list[tuple[str, str]]:
    """As Node's request library writes it."""
    if isinstance(value, dict):
        pairs = [(f"{prefix}[{key}]" if prefix else key, inner) for key, inner in value.items()]
    elif isinstance(value, list):
        pairs = [(f"{prefix}[{index}]", inner) for index, inner in enumerate(value)]
    else:
        text = "" if value is None else str(value).lower() if isinstance(value, bool) else str(value)
        return [(prefix, text)]
    return [field for name, inner in pairs for field in as_form(inner, name)]


async def send_form(client: httpx.AsyncClient, written: dict[str, Any]) -> httpx.Response:
    headers = {"Content-Type": "application/x-www-form-urlencoded"}
    return await client.post(JOBS, content=urlencode(as_form(written)), headers=headers)


def accepted(response: httpx.Response, name: str) -> None:
    assert response.status_code == 202, response.text
    assert response.json() == {"message": f"update job {name} successfully"}
    assert response.headers["location"] == f"/rest-server/api/v1/user/alice/jobs/{name}"


def told(response: httpx.Response) -> str:
    assert response.status_code == 400, response.text
    body = response.json()
    assert body["code"] == "InvalidParametersError"
    return str(body["message"])


async def stored(pai: Pai, name: str) -> Any:
    found = await pai.house.services.jobs.find_by_name(pai.alice, "alice", name)
    return (await pai.house.services.jobs.get(pai.alice, found.id)).record.job


async def run(pai: Pai, name: str, **more: Any) -> str:
    accepted(await pai.user.post(JOBS, json=config(name, **more)), name)
    found = await pai.house.services.jobs.find_by_name(pai.alice, "alice", name)
    await pai.house.until(found.id)
    return found.id


# -- submitting


async def test_a_config_as_json_runs(pai: Pai) -> None:
    await run(pai, "json")
    detail = (await pai.user.get(f"{JOBS}/json")).json()
    assert detail["jobStatus"]["state"] == "SUCCEEDED"


@pytest.mark.parametrize("kind", ["text/plain", "application/x-www-form-urlencoded", "application/json"])
async def test_json_is_read_whatever_it_is_called(pai: Pai, kind: str) -> None:
    sent = await pai.user.post(JOBS, content=json.dumps(config("called")), headers={"Content-Type": kind})
    accepted(sent, "called")


async def test_a_form_becomes_numbers_where_numbers_belong(pai: Pai) -> None:
    role = {
        "taskNumber": 2, "cpuNumber": 1, "memoryMB": 128, "shmMB": 32, "gpuNumber": 0, "minFailedTaskCount": None,
        "minSucceededTaskCount": 2, "portList": [{"label": "web", "beginAt": 0, "portNumber": 3}],
    }  # fmt: skip
    envs = {"isDebug": True, "DEPTH": 7}
    accepted(await send_form(pai.user, config("form", role=role, retryCount=-1, jobEnvs=envs)), "form")
    made = await stored(pai, "form")
    [worker] = made.roles
    assert (made.max_retries, made.hold) == (-1, None)  # "true" is only text
    assert (worker.instances, worker.resources.memory, worker.ports["web"]) == (2, 128 * 2**20, 3)
    assert (worker.completion.min_failed, worker.completion.min_succeeded) == (None, 2)
    assert dict(worker.env)["DEPTH"] == "7"


async def test_a_true_in_json_asks_for_debugging(pai: Pai) -> None:
    accepted(await pai.user.post(JOBS, json=config("debug", jobEnvs={"isDebug": True})), "debug")
    assert (await stored(pai, "debug")).hold is not None


async def test_a_form_with_a_wrong_number_is_told(pai: Pai) -> None:
    sent = await send_form(pai.user, config("wrong", role={"taskNumber": "two"}))
    assert told(sent).startswith("taskRoles[0].taskNumber must be a whole number, not 'two'.")
    assert sent.json()["problems"][0]["dataPath"] == ".taskRoles[0].taskNumber"


async def test_what_is_wrong_is_told_with_lines(pai: Pai) -> None:
    text = '{\n"jobName": "x",\n"image": "i",\n"surprise": 1,\n"taskRoles": []\n}'
    sent = await pai.user.post(JOBS, content=text, headers={"Content-Type": "application/json"})
    assert "surprise is not a known field." in told(sent)
    assert [problem["line"] for problem in sent.json()["problems"]] == [4, 5]


async def test_only_this_protocol_is_taken_here(pai: Pai) -> None:
    assert "jobName is required." in told(await pai.user.post(JOBS, content=job()))
    assert told(await pai.user.post(JOBS, content="{")).startswith("The file is not valid")


async def test_the_name_may_stand_in_the_address(pai: Pai) -> None:
    nameless = {key: value for key, value in config().items() if key != "jobName"}
    accepted(await pai.user.put(f"{JOBS}/put", json=nameless), "put")
    accepted(await pai.user.put(f"{JOBS}/same", json=config("same")), "same")
    refused(await pai.user.put(f"{JOBS}/one", json=config("other")), 400, "InvalidParametersError")
    refused(
        await pai.user.put(f"{JOBS}/one", content="{"),
        400,
        "InvalidParametersError",
        "The request body is not valid JSON.",
    )
    assert "must be a mapping with fields" in told(await pai.user.put(f"{JOBS}/one", json=[1]))


async def test_names_are_unique(pai: Pai) -> None:
    accepted(await pai.user.post(JOBS, json=config("once")), "once")
    refused(await pai.user.post(JOBS, json=config("once")), 409, "ConflictJobError", "Job name once already exists")
    refused(await pai.user.put(f"{JOBS}/once", json=config("once")), 409, "ConflictJobError")


async def test_virtual_clusters_one_cannot_see_are_not_there(pai: Pai) -> None:
    await pai.house.add_group("vision")
    for group in ("vision", "nowhere"):
        said = f"Virtual cluster {group} is not found."
        refused(await pai.user.post(JOBS, json=config(virtualCluster=group)), 404, "NoVirtualClusterError", said)


async def test_virtual_clusters_one_sees_but_is_not_in(tmp_path: Path) -> None:
    async with open_pai(tmp_path / "home", {"access": {"reading": "users"}}) as pai:
        await pai.house.add_group("vision")
        said = "User alice is not allowed to do operation in vision"
        refused(await pai.user.post(JOBS, json=config(virtualCluster="vision")), 403, "ForbiddenUserError", said)


async def test_nobody_submits_for_others(pai: Pai) -> None:
    for client in (pai.admin, await pai.new_user("bob")):
        refused(await client.post(JOBS, json=config()), 403, "ForbiddenUserError")
    refused(await pai.guest.post(JOBS, json=config()), 401, "UnauthorizedUserError")


async def test_the_obsolete_number_is_warned_of(pai: Pai) -> None:
    plain = await pai.user.post(JOBS, json=config("plain"))
    assert "x-warning" not in plain.headers
    warned = await send_form(pai.user, config("warned", killAllOnCompletedTaskNumber=1))
    accepted(warned, "warned")
    assert "killAllOnCompletedTaskNumber" in warned.headers["x-warning"]


# -- looking


async def test_lists_name_a_users_jobs_newest_first(pai: Pai) -> None:
    for name in ("first", "second"):
        await run(pai, name)
    await pai.admin.post("/v2/jobs", content=job("theirs"))
    for path in (JOBS, "/v1/jobs?username=alice"):
        items = (await pai.user.get(path)).json()
        assert [item["name"] for item in items] == ["second", "first"]
    everything = (await pai.user.get("/v1/jobs")).json()
    assert {item["username"] for item in everything} == {"alice", "admin"}
    assert set(everything[0]) == {
        "name", "username", "state", "subState", "executionType", "retries", "retryDetails", "createdTime",
        "completedTime", "appExitCode", "virtualCluster", "totalGpuNumber", "totalTaskNumber", "totalTaskRoleNumber",
    }  # fmt: skip


async def test_details_are_the_same_by_either_address(pai: Pai) -> None:
    await run(pai, "shown", role={"portList": [{"label": "web", "beginAt": 0, "portNumber": 2}]})
    detail = (await pai.user.get(f"{JOBS}/shown")).json()
    again = (await pai.user.get("/v1/jobs/alice~shown")).json()
    [task] = detail["taskRoles"]["worker"]["taskStatuses"]
    [same] = again["taskRoles"]["worker"]["taskStatuses"]
    assert task.pop("containerLog").startswith("http://test/log-manager/")
    assert same.pop("containerLog").startswith("http://test/log-manager/")
    assert detail == again
    assert set(detail) == {"name", "jobStatus", "taskRoles"}
    assert not {"attemptId", "attemptState"} & set(detail["jobStatus"])
    assert detail["jobStatus"]["appTrackingUrl"].endswith("/jobs/alice~shown")
    assert set(task) == {
        "taskIndex", "taskState", "containerId", "containerIp", "containerPorts", "containerGpus", "containerExitCode",
    }  # fmt: skip
    assert set(task["containerPorts"]) == {"web", "ssh", "http"}
    assert all(isinstance(port, str) for port in task["containerPorts"].values())


async def test_unknown_jobs_have_the_code_that_vs_code_waits_for(pai: Pai) -> None:
    for path in (f"{JOBS}/never", "/v1/jobs/alice~never", f"{JOBS}/never/config", f"{JOBS}/never/ssh"):
        refused(await pai.user.get(path), 404, "NoJobError", "Job alice~never is not found.")
    refused(await pai.user.put(f"{JOBS}/never/executionType", json={"value": "STOP"}), 404, "NoJobError")
    refused(await pai.user.delete(f"{JOBS}/never"), 404, "NoJobError")


async def test_the_address_by_which_vs_code_tells_protocols_apart(tmp_path: Path) -> None:
    async with open_pai(tmp_path / "closed") as pai:
        refused(await pai.guest.get("/v2/jobs/protocolversion/config"), 401, "UnauthorizedUserError")
    async with open_pai(tmp_path / "open", {"access": {"reading": "anyone"}}) as pai:
        refused(await pai.guest.get("/v2/jobs/protocolversion/config"), 404, "NoJobError")


async def test_guests_read_where_they_may(tmp_path: Path) -> None:
    """The first SDKs send no token when they read."""
    async with open_pai(tmp_path / "home", {"access": {"reading": "anyone"}}) as pai:
        await run(pai, "public")
        assert (await pai.guest.get("/v1/jobs")).json()[0]["name"] == "public"
        detail = (await pai.guest.get(f"{JOBS}/public")).json()
        log = detail["taskRoles"]["worker"]["taskStatuses"][0]["containerLog"]
        assert "hi\n" in (await pai.guest.get(f"{log}user.pai.stdout/?start=0")).text
        assert (await pai.guest.get(f"{JOBS}/public/config")).json()["jobName"] == "public"
        refused(await pai.guest.delete(f"{JOBS}/public"), 401, "UnauthorizedUserError")


async def test_configs_come_back_as_they_were_written(pai: Pai) -> None:
    written = config("kept", jobEnvs={"A": "b"})
    accepted(await pai.user.post(JOBS, json=written), "kept")
    for path in (f"{JOBS}/kept/config", "/v1/jobs/alice~kept/config", "/v1/jobs/alice/jobs/kept/config"):
        assert (await pai.user.get(path)).json() == written
    as_yaml = await pai.user.get(f"{JOBS}/kept/config", headers={"Accept": "text/yaml"})
    assert as_yaml.headers["content-type"].startswith("text/yaml")
    assert yaml.safe_load(as_yaml.text) == written


async def test_configs_of_the_second_protocol_hold_no_secret(pai: Pai) -> None:
    sent = await pai.user.post("/v2/jobs", content=job("second", secrets={"word": "hush-hush"}))
    assert sent.status_code == 202, sent.text
    shown = await pai.user.get(f"{JOBS}/second/config")
    assert shown.json()["protocolVersion"] == 2
    assert "hush-hush" not in shown.text


async def test_ssh_is_refused_in_known_words(pai: Pai) -> None:
    await run(pai, "quiet")
    for path in (f"{JOBS}/quiet/ssh", "/v1/jobs/alice~quiet/ssh"):
        refused(await pai.user.get(path), 404, "NoJobSshInfoError")


# -- stopping


@pytest.mark.parametrize("way", ["delete", "stop", "form"])
async def test_jobs_are_stopped_by_their_owner(pai: Pai, way: str) -> None:
    accepted(await pai.user.post(JOBS, json=config("runs", role={"command": "sleep 100"})), "runs")
    found = await pai.house.services.jobs.find_by_name(pai.alice, "alice", "runs")
    await pai.house.until(found.id, JobState.RUNNING)
    bob = await pai.new_user("bob")
    refused(await bob.delete(f"{JOBS}/runs"), 403, "ForbiddenUserError")
    refused(await bob.put(f"{JOBS}/runs/executionType", json={"value": "STOP"}), 403, "ForbiddenUserError")
    if way == "delete":
        said = await pai.user.delete(f"{JOBS}/runs")
        assert said.json() == {"message": "deleted job runs successfully"}
    else:
        body: dict[str, Any] = {"data" if way == "form" else "json": {"value": "STOP"}}
        said = await pai.user.put(f"{JOBS}/runs/executionType", **body)
        assert said.json() == {"message": "execute job runs successfully"}
    assert said.status_code == 202
    assert (await pai.house.until(found.id)).state is JobState.CANCELLED
    detail = await pai.user.get(f"{JOBS}/runs")  # it stays
    assert detail.json()["jobStatus"]["state"] == "STOPPED"


async def test_execution_type_is_start_or_stop(pai: Pai) -> None:
    await run(pai, "over")
    refused(await pai.user.put(f"{JOBS}/over/executionType", json={"value": "INTERVAL"}), 400, "InvalidParametersError")
