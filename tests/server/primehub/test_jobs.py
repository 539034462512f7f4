"""Jobs by GraphQL: made, shown, cancelled, run again, and refused."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from holdfast.core.job import GIB, Hold
from holdfast.core.scheduling.placement import Quota
from holdfast.core.states import JobState
from holdfast.services.people.groups import GroupChange
from tests.services.recorded_metrics import MIB, START, record_steady

from .hub import JOB, Hub, open_hub

pytestmark = pytest.mark.anyio

CREATE = "mutation ($data: PhJobCreateInput!) { createPhJob(data: $data) { id phase reason message cancel } }"
RERUN = "mutation ($where: PhJobWhereUniqueInput!) { rerunPhJob(where: $where) { id userName activeDeadlineSeconds } }"
CANCEL = "mutation ($where: PhJobWhereUniqueInput!) { cancelPhJob(where: $where) { id } }"
GET = "query ($where: PhJobWhereUniqueInput!) { phJob(where: $where) { id phase } }"
SLOW = "sleep 1000"


def gone(id: str) -> tuple[str, str]:
    return "RESOURCE_NOT_FOUND", f'phjobs.primehub.io "{id}" not found'


async def test_a_job_runs_and_is_told_in_primehubs_words(hub: Hub) -> None:
    made = await hub.ann.data(CREATE, data=JOB)
    assert made == {"id": made["id"], "phase": "Pending", "reason": None, "message": None, "cancel": False}
    await hub.house.until(made["id"])
    shown = await hub.ann.job(made["id"], "phase", "reason", "message", "userName", "groupId", "groupName", "cancel")
    assert shown == {
        "phase": "Succeeded",
        "reason": "PodSucceeded",
        "message": "Job completed",
        "userName": "ann",
        "groupId": "red",
        "groupName": "red",
        "cancel": False,
    }


async def test_failures_say_why(hub: Hub) -> None:
    id = await hub.ann.run(hub, command="exit 3")
    shown = await hub.ann.job(id, "phase", "reason", "message")
    assert shown["phase"] == "Failed"
    assert shown["reason"] == "PodFailed"
    assert shown["message"].startswith("Job failed due to Error: Exit code 3")


async def test_a_held_job_runs_on_to_its_clients(hub: Hub) -> None:
    """PrimeHub's form does not ask for it: the group's jobs are held."""
    await hub.house.services.groups.change(hub.house.admin, "red", GroupChange(hold=Hold()))
    made = await hub.ann.data(CREATE, data={**JOB, "command": "exit 3"})
    assert (await hub.house.until(made["id"], JobState.HELD)).state is JobState.HELD
    shown = await hub.ann.job(made["id"], "phase", "finishTime", "cancel")
    assert shown == {"phase": "Running", "finishTime": None, "cancel": False}
    await hub.ann.data(CANCEL, where={"id": made["id"]})
    ended = await hub.house.until(made["id"])
    assert (ended.state, ended.exit_code) == (JobState.FAILED, 3)


async def test_a_job_with_an_image_that_nobody_knows_fails_later(hub: Hub) -> None:
    id = await hub.ann.run(hub, image="tf-99")
    assert await hub.ann.job(id, "phase", "reason", "message") == {
        "phase": "Failed",
        "reason": "PodCreationFailed",
        "message": "Image not found: tf-99",
    }


async def test_a_cancelled_job_is_shown_so_before_it_has_ended(hub: Hub) -> None:
    id = await hub.ann.submit(command="trap '' TERM\n" + SLOW)
    await hub.house.until(id, JobState.RUNNING)
    assert await hub.ann.data(CANCEL, where={"id": id}) == {"id": id}
    shown = await hub.ann.job(id, "phase", "reason", "message", "cancel", "finishTime")
    assert (shown["phase"], shown["reason"], shown["message"], shown["cancel"]) == (
        "Cancelled",
        "Cancelled",
        "Cancelled by user",
        True,
    )


async def test_cancelling_what_has_ended_changes_nothing(hub: Hub) -> None:
    id = await hub.ann.run(hub)
    assert await hub.ann.data(CANCEL, where={"id": id}) == {"id": id}
    assert await hub.ann.job(id, "phase") == "Succeeded"


async def test_a_rerun_keeps_the_time_limit_and_is_the_callers(hub: Hub) -> None:
    id = await hub.ann.run(hub, activeDeadlineSeconds=1234)
    eve = await hub.caller(await hub.house.user("eve", "red"))
    made = await eve.data(RERUN, where={"id": id})
    assert made["id"] != id
    assert (made["userName"], made["activeDeadlineSeconds"]) == ("eve", 1234)


async def test_the_time_limit_shown_is_the_one_in_force(hub: Hub) -> None:
    """The job's own, its group's, or everybody's; 0 is none."""

    async def shown(**given: int) -> object:
        return await hub.ann.job(await hub.ann.run(hub, **given), "activeDeadlineSeconds")

    async def group_limit(limit: timedelta) -> None:
        await hub.house.services.groups.change(hub.house.admin, "red", GroupChange(time_limit=limit))

    assert await shown() == 86400
    await group_limit(timedelta(hours=1))
    assert (await shown(), await shown(activeDeadlineSeconds=99), await shown(activeDeadlineSeconds=0)) == (3600, 99, 0)
    await group_limit(timedelta(days=36500))
    assert await shown() == 2**31 - 1


async def test_what_one_may_not_see_is_not_there(hub: Hub) -> None:
    id = await hub.ann.run(hub)
    for query in (GET, RERUN, CANCEL):
        assert await hub.bob.refused(query, where={"id": id}) == gone(id)
        for wrong in ("", "nope", "demo", id[:-1], id.removeprefix("job-"), 'a"b'):
            assert await hub.ann.refused(query, where={"id": wrong}) == gone(wrong), wrong
    assert await hub.admin.job(id, "phase") == "Succeeded"


async def test_a_job_for_a_group_one_is_not_in_is_refused(hub: Hub) -> None:
    for group in ("blue", "nobody", "everyone"):
        assert await hub.ann.refused(CREATE, data={**JOB, "groupId": group}) == ("NOT_AUTH", "user not auth"), group


@pytest.mark.parametrize(
    ("quota", "user_quota", "size", "said"),
    [
        (Quota(), Quota(cpu=0.5), "cpu-1", "User Cpu Quota exceeded"),
        (Quota(cpu=0.5), Quota(), "cpu-1", "Group Cpu Quota exceeded"),
        (Quota(), Quota(memory=GIB), "cpu-1", "User Memory exceeded"),
        (Quota(memory=GIB), Quota(), "cpu-1", "Group Memory exceeded"),
        (Quota(), Quota(gpu=0), "gpu-1", "User Gpu Quota exceeded"),
        (Quota(gpu=0), Quota(), "gpu-1", "Group Gpu Quota exceeded"),
        (Quota(cpu=0.5, gpu=0), Quota(cpu=0.5, gpu=0), "gpu-1", "User Gpu Quota exceeded"),
    ],
)
async def test_what_no_quota_has_room_for_is_refused(
    hub: Hub, quota: Quota, user_quota: Quota, size: str, said: str
) -> None:
    change = GroupChange(quota=quota, user_quota=user_quota)
    await hub.house.services.groups.change(hub.house.admin, "red", change)
    assert await hub.ann.refused(CREATE, data={**JOB, "instanceType": size}) == ("EXCEED_QUOTA", said)


@pytest.mark.parametrize("missing", ["displayName", "instanceType", "image", "command"])
async def test_what_is_missing_is_named(hub: Hub, missing: str) -> None:
    data: dict[str, Any] = {name: value for name, value in JOB.items() if name != missing}
    for given in (data, {**data, missing: None}):
        code, message = await hub.ann.refused(CREATE, data=given)
        assert code == "REQUEST_BODY_INVALID"
        assert missing in message


async def test_a_large_command_arrives_whole(hub: Hub) -> None:
    command = "echo 'ä€😀'\n" + "# ein langer Kommentar: äöü\n" * 20_000
    id = await hub.ann.run(hub, command=command)
    assert await hub.ann.job(id, "command") == command


async def test_a_size_that_is_gone_is_told_with_the_jobs_own_numbers(hub: Hub) -> None:
    id = await hub.ann.run(hub)
    await hub.house.services.instance_types.delete(hub.house.admin, "cpu-1")
    shown = await hub.ann.job(id, "instanceType { id name cpuLimit memoryLimit gpuLimit tolerations { key } }")
    assert shown == {
        "id": "cpu-1-not-found",
        "name": "cpu-1",
        "cpuLimit": 1,
        "memoryLimit": 2,
        "gpuLimit": 0,
        "tolerations": [],
    }


async def test_jobs_of_other_dialects_are_shown_too(hub: Hub) -> None:
    text = "name: ours\ngroup: red\ncommands: [echo one, echo two]\nresources: {cpu: 1.5, memory: 3Gi}\n"
    made = await hub.house.submit(text, hub.ann.actor)
    await hub.house.until(made.id)
    size = "instanceType { id name displayName cpuLimit memoryLimit }"
    assert await hub.ann.job(made.id, "displayName", "command", "image", "phase", size) == {
        "displayName": "ours",
        "command": "echo one\necho two",
        "image": "host",
        "phase": "Succeeded",
        "instanceType": {
            "id": "custom-not-found",
            "name": "custom",
            "displayName": "1.5 CPU, 3 GB",
            "cpuLimit": 1.5,
            "memoryLimit": 3,
        },
    }


async def test_where_to_read_the_log_is_said_as_the_client_came(hub: Hub) -> None:
    id = await hub.ann.run(hub)
    assert await hub.ann.job(id, "logEndpoint") == f"http://hub.example/api/logs/namespaces/hub/phjobs/{id}"
    hub.ann.http.headers["X-Forwarded-Proto"] = "https"  # of a client that is no trusted proxy
    assert await hub.ann.job(id, "logEndpoint") == f"http://hub.example/api/logs/namespaces/hub/phjobs/{id}"


async def test_a_job_without_figures_and_artifacts_has_their_place(hub: Hub) -> None:
    id = await hub.ann.run(hub)
    assert await hub.ann.job(id, "monitoring", "artifact { prefix items { name } }") == {
        "monitoring": None,
        "artifact": {"prefix": f"groups/red/jobArtifacts/{id}", "items": []},
    }


async def test_figures_are_told_as_primehubs_agent_wrote_them(hub: Hub) -> None:
    id = await hub.ann.run(hub)
    database = hub.house.services.metrics.database
    await record_steady(database, f"{id}.0.main-0.0", cpu=150, memory=300 * MIB, gpus=(40.0,), seconds=320)
    found = await hub.ann.job(id, "monitoring")
    assert found["spec"] == {"mem_total": GIB, "GPU": [{"index": 0, "mem_total": 8 * GIB}]}
    counts = {name: len(points) for name, points in found["datasets"].items()}
    assert counts == {"15m": 32, "1h": 11, "3h": 3, "lifetime": 2}
    record = {"cpu_util": 150, "mem_used": 300 * MIB, "GPU": [{"index": 0, "gpu_util": 40, "mem_used": GIB}]}
    assert found["datasets"]["15m"][0] == {"timestamp": int(START) + 10, **record}
    assert found["datasets"]["lifetime"][0] == {"timestamp": int(START) + 300, **record}
    assert found["datasets"]["3h"][-1] == {"timestamp": int(START) + 320, **record}


async def test_figures_without_gpus(hub: Hub) -> None:
    id = await hub.ann.run(hub)
    database = hub.house.services.metrics.database
    await record_steady(database, f"{id}.0.main-0.0", seconds=10)
    found = await hub.ann.job(id, "monitoring")
    assert found["spec"]["GPU"] == found["datasets"]["lifetime"][0]["GPU"] == []


async def test_figures_of_several_roles_are_those_of_the_first(hub: Hub) -> None:
    roles = "name: two\nroles:\n  z: {command: echo z}\n  a: {command: echo a}\n"
    id = (await hub.house.submit(roles, hub.ann.actor, group="red")).id
    await hub.house.until(id)
    database = hub.house.services.metrics.database
    await record_steady(database, f"{id}.0.a-0.0", cpu=10, seconds=10)
    await record_steady(database, f"{id}.0.z-0.0", cpu=90, seconds=10)
    found = await hub.ann.job(id, "monitoring")
    assert found["datasets"]["15m"][0]["cpu_util"] == 90


async def test_what_primehubs_own_parts_did(hub: Hub) -> None:
    clean = "mutation { cleanupPhJobArtifact }"
    assert await hub.admin.data(clean) == 0
    assert await hub.ann.refused(clean) == ("NOT_AUTH", "user not auth")
    assert (await hub.admin.refused("mutation { notifyPhJobEvent }"))[0] == "NOT_AUTH"


async def test_where_only_owners_act_others_of_the_group_look_on(tmp_path: Path) -> None:
    async with open_hub(tmp_path / "home", settings={"access": {"acting": "owners"}}) as hub:
        eve = await hub.caller(await hub.house.user("eve", "red"))
        id = await hub.ann.submit(command=SLOW)
        assert (await eve.refused(CANCEL, where={"id": id}))[0] == "NOT_AUTH"
        assert (await eve.data(GET, where={"id": id}))["id"] == id
        await hub.ann.data(CANCEL, where={"id": id})
