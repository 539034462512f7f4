"""What is refused of a job in OpenPAI's second protocol, and in which order: one test for each check."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from holdfast.core.states import JobState

from .job_files import job, role
from .pai import Pai, open_pai

pytestmark = pytest.mark.anyio


async def send(client: httpx.AsyncClient, text: str | bytes, kind: str | None = "text/yaml") -> httpx.Response:
    content = text if isinstance(text, bytes) else text.encode()
    return await client.post("/v2/jobs", content=content, headers={} if kind is None else {"Content-Type": kind})


def message_of(response: httpx.Response, status: int, code: str) -> str:
    assert response.status_code == status, response.text
    body = response.json()
    assert body["code"] == code, body
    return str(body["message"])


def errors_of(response: httpx.Response) -> list[dict[str, Any]]:
    """The list that is in the message as text."""
    found: list[dict[str, Any]] = json.loads(message_of(response, 400, "InvalidProtocolError"))
    for error in found:
        assert set(error) == {"keyword", "dataPath", "schemaPath", "params", "message", "line", "hint"}
    assert found == response.json()["problems"]
    return found


# -- 1: a login


async def test_guests_are_refused(pai: Pai) -> None:
    said = message_of(await send(pai.guest, "nonsense: ["), 401, "UnauthorizedUserError")
    assert said == "Guest is not allowed to do this operation."


async def test_a_token_that_is_not_ours_is_refused(pai: Pai) -> None:
    stranger = await pai.client("made-up")
    assert message_of(await send(stranger, job()), 401, "UnauthorizedUserError") == "Your token is invalid."


# -- 2: not too often


async def test_too_many_submissions(tmp_path: Path) -> None:
    async with open_pai(tmp_path / "home", {"openpai": {"submits_per_hour": 2}}) as pai:
        assert (await send(pai.user, job("one"))).status_code == 202
        assert (await send(pai.user, "not a job")).status_code == 400  # counts as well
        refused = await send(pai.user, "also: [ not even YAML")
        assert refused.status_code == 429
        assert refused.text == "Too many requests, please try again later."
        assert refused.headers["x-ratelimit-remaining"] == "0"
        assert (await send(pai.admin, job("other"))).status_code == 202


# -- 3: YAML, as text


async def test_text_that_is_not_yaml_is_told_with_its_line(pai: Pai) -> None:
    said = message_of(await send(pai.user, "name: x\ntaskRoles: [\n  a: : b\n"), 400, "InvalidProtocolError")
    assert said.startswith("Line 3: The file is not valid YAML")


async def test_bytes_that_are_no_text_are_told_with_their_line(pai: Pai) -> None:
    said = message_of(await send(pai.user, b"name: x\nversion: \xff\n"), 400, "InvalidProtocolError")
    assert said == "Line 2: The file is not UTF-8 text. Save it as UTF-8."


async def test_json_as_application_json_is_refused_with_what_to_do(pai: Pai) -> None:
    said = message_of(await send(pai.user, job(), "application/json; charset=utf-8"), 400, "InvalidProtocolError")
    assert "text/yaml" in said
    assert (await send(pai.user, job(), "text/plain")).status_code == 202


async def test_a_v1_file_is_sent_where_it_belongs(pai: Pai) -> None:
    file = {"jobName": "old", "image": "host", "taskRoles": [{"name": "w", "taskNumber": 1, "command": "true"}]}
    refused = await send(pai.user, json.dumps(file))
    said = message_of(refused, 400, "InvalidProtocolError")
    assert "OpenPAI protocol v1, not v2" in said
    assert "POST /api/v1/user/<user>/jobs" in said
    assert len(refused.json()["problems"]) == 1


# -- 4: the shape


async def test_every_broken_rule_is_told(pai: Pai) -> None:
    text = (
        "protocolVersion: 2\nname: a b\ntype: job\njobRetryCount: -1\nsurprise: 1\n"
        "prerequisites: [{type: dockerimage, name: i}]\n"
        "taskRoles:\n  worker:\n    instances: many\n    dockerImage: i\n    commands: []\n"
        "    resourcePerInstance: {cpu: 1, memoryMB: 1, gpu: 0, ports: {}}\n"
        "extras: {hivedScheduler: {jobPriorityClass: high}, com.microsoft.pai.runtimeplugin: [{}]}\n"
    )
    found = {(error["dataPath"], error["keyword"]): error for error in errors_of(await send(pai.user, text))}
    assert set(found) == {
        (".name", "pattern"),
        (".jobRetryCount", "minimum"),
        ("", "additionalProperties"),
        (".prerequisites[0]", "required"),
        (".taskRoles.worker.instances", "type"),
        (".taskRoles.worker.commands", "minItems"),
        (".taskRoles.worker.resourcePerInstance.ports", "minProperties"),
        (".extras.hivedScheduler.jobPriorityClass", "enum"),
        (".extras['com.microsoft.pai.runtimeplugin'][0]", "required"),
    }
    retries = found[".jobRetryCount", "minimum"]
    assert retries["message"] == "should be >= 0"
    assert retries["params"] == {"comparison": ">=", "limit": 0, "exclusive": False}
    assert retries["schemaPath"] == "#/properties/jobRetryCount/minimum"
    assert retries["line"] == 4
    assert found["", "additionalProperties"]["params"] == {"additionalProperty": "surprise"}
    assert found[".prerequisites[0]", "required"]["params"] == {"missingProperty": "uri"}
    assert found[".taskRoles.worker.instances", "type"]["params"] == {"type": "integer"}
    assert found[".extras.hivedScheduler.jobPriorityClass", "enum"]["params"] == {
        "allowedValues": ["crit", "prod", "test", "oppo"]
    }


async def test_odd_names_are_quoted_in_paths(pai: Pai) -> None:
    text = job(roles={"a-b": role(), "it's \\": role()})
    assert [error["dataPath"] for error in errors_of(await send(pai.user, text))] == [
        ".taskRoles['a-b']",
        ".taskRoles['it\\'s \\\\']",
    ]


async def test_what_is_no_job_at_all_is_told(pai: Pai) -> None:
    [error] = errors_of(await send(pai.user, "- a list"))
    assert (error["keyword"], error["dataPath"], error["line"]) == ("type", "", 1)


async def test_other_dialects_are_not_taken_for_this_one(pai: Pai) -> None:
    found = errors_of(await send(pai.user, "name: ours\ncommand: echo hi\n"))
    assert {"missingProperty": "taskRoles"} in [error["params"] for error in found]


# -- 5: names


async def test_duplicate_prerequisites(pai: Pai) -> None:
    twice = [{"name": "image", "type": "dockerimage", "uri": uri} for uri in ("a", "b")]
    refused = await send(pai.user, job(prerequisites=twice))
    assert message_of(refused, 400, "InvalidProtocolError") == "Duplicate dockerimage prerequisites image."
    assert refused.json()["problems"][0]["dataPath"] == ".prerequisites[1]"


async def test_duplicate_deployments_come_before_dangling_references(pai: Pai) -> None:
    one = {"name": "d", "taskRoles": {"worker": {"preCommands": ["x"]}}}
    text = job(deployments=[one, one], defaults={"deployment": "other"}, roles={"worker": role(script="missing")})
    assert message_of(await send(pai.user, text), 400, "InvalidProtocolError") == "Duplicate deployments d."


async def test_the_shape_comes_before_names(pai: Pai) -> None:
    twice = [{"name": "image", "type": "dockerimage", "uri": "a"}] * 2
    found = errors_of(await send(pai.user, job(prerequisites=twice, jobRetryCount="many")))
    assert [error["keyword"] for error in found if error["keyword"] != "uniqueNames"] == ["type"]


# -- 6: references


@pytest.mark.parametrize("key", ["dockerImage", "data", "output", "script"])
async def test_dangling_prerequisites(pai: Pai, key: str) -> None:
    refused = await send(pai.user, job(roles={"worker": role(**{key: "gone"})}))
    assert message_of(refused, 400, "InvalidProtocolError") == "Prerequisite gone does not exist."
    assert refused.json()["problems"][0]["dataPath"] == f".taskRoles.worker.{key}"


async def test_dangling_prerequisite_in_a_roles_list(pai: Pai) -> None:
    refused = await send(pai.user, job(roles={"worker": role(prerequisites=["image", "gone"])}))
    assert message_of(refused, 400, "InvalidProtocolError") == "Prerequisite gone does not exist."


async def test_dangling_deployment(pai: Pai) -> None:
    refused = await send(pai.user, job(defaults={"deployment": "prod"}))
    assert message_of(refused, 400, "InvalidProtocolError") == "Default deployment prod does not exist."


# -- 7: the scheduler's cells


@pytest.fixture
async def cluster(tmp_path: Path) -> AsyncIterator[Pai]:
    """Where an admin has named SKU types; before, files may name any."""
    types = {"cpu-1": {"cpu": 1, "memory": 2**31}, "cpu-2": {"cpu": 2, "memory": 2**32}}
    async with open_pai(tmp_path / "home", {"jobs": {"instance_types": types}}) as opened:
        yield opened


async def scheduled(pai: Pai, **cells: Any) -> str:
    text = job(extras={"hivedScheduler": {"taskRoles": cells}})
    return message_of(await send(pai.user, text), 400, "InvalidProtocolError")


async def test_a_cell_of_no_role(pai: Pai) -> None:
    assert "is not a task role of this job" in await scheduled(pai, other={"skuType": "cpu-1"})


async def test_sku_and_pinned_cell_exclude_each_other(pai: Pai) -> None:
    assert "both skuType and pinnedCellId" in await scheduled(pai, worker={"skuType": "cpu-1", "pinnedCellId": "x"})


async def test_unknown_sku(cluster: Pai) -> None:
    assert "nothing" in await scheduled(cluster, worker={"skuType": "nothing"})


async def test_more_skus_than_there_are(cluster: Pai) -> None:
    cell = {"hivedScheduler": {"taskRoles": {"worker": {"skuType": "cpu-1"}}}}
    text = job(roles={"worker": role(instances=9)}, extras=cell)
    said = message_of(await send(cluster.user, text), 400, "InvalidProtocolError")
    assert said == "Job requests 9 SKUs, exceeds maximum 4 SKUs in VC default."


async def test_opportunistic_jobs_may_be_of_any_size(cluster: Pai) -> None:
    cells = {"jobPriorityClass": "oppo", "taskRoles": {"worker": {"skuType": "cpu-1"}}}
    text = job("oppo", roles={"worker": role(instances=9)}, extras={"hivedScheduler": cells})
    assert (await send(cluster.user, text)).status_code == 202


async def test_roles_of_one_affinity_group_must_agree(cluster: Pai) -> None:
    cells = {
        "worker": {"skuType": "cpu-1", "affinityGroupName": "g"},
        "ps": {"skuType": "cpu-2", "affinityGroupName": "g"},
    }
    text = job(roles={"worker": role(), "ps": role()}, extras={"hivedScheduler": {"taskRoles": cells}})
    refused = await send(cluster.user, text)
    assert "affinity" in message_of(refused, 400, "InvalidProtocolError")
    assert refused.json()["problems"][0]["dataPath"] == ".extras.hivedScheduler.taskRoles.ps.affinityGroupName"


async def test_a_sku_without_what_is_asked_for(cluster: Pai) -> None:
    cell = {"hivedScheduler": {"taskRoles": {"worker": {"skuType": "cpu-1"}}}}
    text = job(roles={"worker": role(asked={"gpu": 1})}, extras=cell)
    assert "gpu" in message_of(await send(cluster.user, text), 400, "InvalidProtocolError").lower()


# -- 8: a name of one's own


async def test_names_are_unique_for_ever(pai: Pai) -> None:
    assert (await send(pai.user, job("mine"))).status_code == 202
    found = await pai.house.services.jobs.find_by_name(pai.alice, "alice", "mine")
    await pai.house.until(found.id)
    again = await send(pai.user, job("mine", defaults={"virtualCluster": "nowhere"}))  # said before the group
    assert message_of(again, 409, "ConflictJobError") == "Job alice~mine already exists."
    assert (await send(pai.admin, job("mine"))).status_code == 202


# -- 9: the virtual cluster


@pytest.mark.parametrize("known", [True, False])
async def test_a_virtual_cluster_one_is_not_in(pai: Pai, known: bool) -> None:
    if known:
        await pai.house.add_group("vision")
    storages = {"storages": [{"name": "none"}]}  # said later
    refused = await send(pai.user, job(defaults={"virtualCluster": "vision"}, extras=storages))
    said = message_of(refused, 403, "ForbiddenUserError")
    assert said == "User alice is not allowed to do operation in vision"


async def test_a_job_that_names_no_virtual_cluster_means_default(pai: Pai) -> None:
    bob = await pai.new_user("bob", "vision", "speech")
    said = message_of(await send(bob, job()), 403, "ForbiddenUserError")
    assert said.startswith("User bob is not allowed to do operation in default")
    assert (await send(bob, job(defaults={"virtualCluster": "speech"}))).status_code == 202


# -- 10: storages


async def test_a_storage_that_is_not_granted(pai: Pai) -> None:
    refused = await send(pai.user, job(extras={"storages": [{"name": "team"}]}))
    assert message_of(refused, 404, "NoStorageError") == "Storage team is not found."


# -- and then it is taken


@pytest.mark.parametrize("kind", ["text/yaml", "text/plain", "text/plain;charset=UTF-8", None])
async def test_a_good_job_is_taken(pai: Pai, kind: str | None) -> None:
    taken = await send(pai.user, job("good"), kind)
    assert taken.status_code == 202, taken.text
    assert taken.json() == {"status": 202, "message": "Update job good for user alice successfully."}
    found = await pai.house.services.jobs.find_by_name(pai.alice, "alice", "good")
    assert (await pai.house.until(found.id)).state is JobState.SUCCEEDED


async def test_warnings_are_told_and_kept(pai: Pai) -> None:
    text = job("warned", taskRoles={"main": role(commands=["echo <% $parameters.none %>"])})
    [warning] = (await send(pai.user, text)).json()["warnings"]
    assert "<% $parameters.none %>" in warning
    events = (await pai.user.get("/v2/jobs/alice~warned/events?type=Warning")).json()["data"]
    assert [(event["reason"], event["message"]) for event in events] == [("Warning", warning)]


async def test_application_tokens_submit(pai: Pai) -> None:
    assert (await send(await pai.application(), job())).status_code == 202


async def test_a_masked_config_has_to_be_filled_in_again(pai: Pai) -> None:
    [error] = errors_of(await send(pai.user, job(secrets="******")))
    assert (error["dataPath"], error["message"]) == (".secrets", "should be object")
    assert "Enter the secrets again" in error["hint"]
    masked = {"token": "******", "registry": {"password": "******", "user": "ann"}}
    [error] = errors_of(await send(pai.user, job(secrets=masked)))
    assert error["message"] == "contains ****** instead of the values of token, registry.password"
