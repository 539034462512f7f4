"""One job as OpenPAI's clients see it, through HTTP: a real store and controller, a scripted engine."""

from __future__ import annotations

import asyncio
import hashlib
import json
from pathlib import Path
from typing import Any

import pytest

from holdfast.core.conditions import Condition, ConditionKind
from holdfast.core.identity import build_container_uid, build_task_uid
from holdfast.core.scheduling.placement import Node
from holdfast.core.states import JobState
from holdfast.server.openpai.jobs.error_logs import ErrorLogs, parse_error_logs
from holdfast.store.jobs import records as job_rows
from tests.fake_engine import FakeEngine

from .job_files import job, role
from .pai import Pai, open_pai, refused

pytestmark = pytest.mark.anyio

STATUS_KEYS = {
    "username", "state", "subState", "executionType", "retries", "retryDetails", "retryDelayTime", "submissionTime",
    "createdTime", "launchedTime", "completedTime", "attemptId", "attemptState", "appId", "appProgress",
    "appTrackingUrl", "appCreatedTime", "appLaunchedTime", "appCompletedTime", "appExitCode", "appExitSpec",
    "appExitDiagnostics", "appExitMessages", "appExitTriggerMessage", "appExitTriggerTaskRoleName",
    "appExitTriggerTaskIndex", "appExitType", "virtualCluster",
}  # fmt: skip
TASK_KEYS = {
    "taskIndex", "taskUid", "taskState", "containerId", "containerIp", "containerNodeName", "containerPorts",
    "containerGpus", "containerLog", "containerExitCode", "containerExitSpec", "containerExitDiagnostics", "retries",
    "accountableRetries", "createdTime", "launchedTime", "completedTime", "attemptId", "attemptState",
    "currentAttemptCreatedTime", "currentAttemptLaunchedTime", "currentAttemptCompletedTime",
}  # fmt: skip
SPEC_KEYS = {
    "code", "phrase", "issuer", "causer", "type", "stage", "behavior", "reaction", "reason", "repro", "solution",
}  # fmt: skip
EXIT_KEYS = {key for key in STATUS_KEYS if key.startswith("appExit")}


async def detail(pai: Pai, name: str = "train", more: str = "") -> dict[str, Any]:
    response = await pai.user.get(f"/v2/jobs/alice~{name}{more}")
    assert response.status_code == 200, response.text
    body: dict[str, Any] = response.json()
    assert set(body) == {"debugId", "name", "tags", "jobStatus", "taskRoles"}
    assert set(body["jobStatus"]) == STATUS_KEYS
    for each in body["taskRoles"].values():
        assert set(each) == {"taskRoleStatus", "taskStatuses"}
        for task in each["taskStatuses"]:
            assert set(task) == TASK_KEYS
    return body


def only_task(body: dict[str, Any], name: str = "worker") -> dict[str, Any]:
    (task,) = body["taskRoles"][name]["taskStatuses"]
    assert isinstance(task, dict)
    return task


async def ran(pai: Pai, text: str) -> None:
    await pai.house.run(text, pai.alice)


async def test_a_job_that_succeeded(pai: Pai) -> None:
    await ran(pai, job())
    body = await detail(pai)
    assert body["debugId"] == hashlib.md5(b"alice~train").hexdigest()
    assert body["name"] == "train"
    status = body["jobStatus"]
    assert (status["state"], status["subState"], status["attemptState"]) == ("SUCCEEDED", "Completed", "SUCCEEDED")
    assert (status["username"], status["virtualCluster"], status["executionType"]) == ("alice", "default", "START")
    assert status["appExitCode"] == 0
    assert status["appExitSpec"]["phrase"] == "Succeeded"
    assert status["appExitType"] == "Succeeded"
    message = "SucceededTaskCount 1 has reached MinSucceededTaskCount 1 in the TaskRole"
    assert status["appExitTriggerMessage"] == message
    assert (status["appExitTriggerTaskRoleName"], status["appExitTriggerTaskIndex"]) == ("worker", 0)
    assert status["appProgress"] == 1
    assert status["appExitMessages"]["runtime"] is None
    assert only_task(body)["taskState"] == "SUCCEEDED"


async def test_a_job_that_failed_tells_both_codes(pai: Pai) -> None:
    await ran(pai, job(roles={"worker": role("exit 3")}))
    body = await detail(pai)
    status = body["jobStatus"]
    assert (status["state"], status["appExitCode"], status["appExitType"]) == ("FAILED", 255, "Failed")
    assert set(status["appExitSpec"]) == SPEC_KEYS
    assert status["appExitSpec"]["behavior"] == "UNKNOWN"
    assert status["appExitSpec"]["reaction"] == "RETRY_TO_MAX"
    assert isinstance(status["appExitSpec"]["solution"], list)
    assert status["appExitMessages"]["runtime"] == {
        "name": "app",
        "exitCode": 255,
        "originUserExitCode": 3,
        "errorLogs": {"user": "", "platform": ""},
    }
    assert status["appExitTriggerMessage"] == "FailedTaskCount 1 has reached MinFailedTaskCount 1 in the TaskRole"
    assert "Exit code 3" in status["appExitDiagnostics"]
    task = only_task(body)
    assert (task["containerExitCode"], task["taskState"], task["attemptState"]) == (255, "FAILED", "FAILED")
    assert set(task["containerExitSpec"]) == SPEC_KEYS
    assert task["containerExitDiagnostics"] == "Exit code 3"


async def test_a_failed_job_tells_the_end_of_its_log(pai: Pai) -> None:
    made = await pai.house.submit(job(roles={"worker": role("sleep 100")}, jobRetryCount=1), pai.alice)
    seen: set[str] = set()
    for words in ("first", "second"):
        while not (running := set(pai.house.engine.list_running()) - seen):
            await asyncio.sleep(0.01)
        seen |= running
        lines = [f"{words} {number}" for number in range(20)]
        runtime = "[2026-03-01T00:00:00+0000] [openpai-runtime] [INFO] USER COMMAND START"
        text = "\n".join([*lines[:3], runtime, *lines[3:], "ValueError: b\u00f6\u00f6m", ""])
        pai.house.engine.write_log(min(running), text.encode())
        pai.house.engine.finish_task(min(running), 1)
    await pai.house.until(made.id)

    def told(words: str) -> dict[str, str]:
        end = [f"{words} {number}" for number in range(6, 20)]
        return {"user": "\n".join([*end, "ValueError: b\u00f6\u00f6m"]), "platform": "[INFO] USER COMMAND START"}

    base = "/v2/jobs/alice~train"
    newest = (told("second"), base, "/v1/user/alice/jobs/train")
    for expected, *paths in (newest, (told("first"), f"{base}/attempts/0")):
        for path in paths:
            body = (await pai.user.get(path)).json()
            assert body["jobStatus"]["appExitMessages"]["runtime"]["errorLogs"] == expected


async def test_a_log_that_is_gone_has_no_end(pai: Pai) -> None:
    await ran(pai, job(roles={"worker": role("echo hi; exit 1")}))
    read = [(await detail(pai))["jobStatus"]["appExitMessages"]["runtime"]["errorLogs"]["user"]]
    [task] = (await pai.house.services.jobs.get(pai.alice, "train")).tasks
    await pai.house.store.write(job_rows.mark_logs_removed, [task.attempt_id], pai.house.clock.now())
    read.append((await detail(pai))["jobStatus"]["appExitMessages"]["runtime"]["errorLogs"]["user"])
    assert read == ["hi", ""]


@pytest.mark.parametrize(
    ("data", "whole", "user", "platform"),
    [
        (b"", True, "", ""),
        (b"one\ntwo", True, "one\ntwo", ""),
        (b"lf of a line\nnext\n", False, "next", ""),
        (b"one line that is longer than all", False, "one line that is longer than all", ""),
        (b"a\x1cb\xff\r\n\n", True, "a\x1cb\ufffd\r\n", ""),
        (b"[t] [openpai-runtime] [INFO] A\nx\n[t] [openpai-runtime] B\n", True, "x", "[INFO] A\nB"),
        (b"x [t] [openpai-runtime] mine\n", True, "x [t] [openpai-runtime] mine", ""),
    ],
)
def test_the_last_lines_of_a_log(data: bytes, whole: bool, user: str, platform: str) -> None:
    assert parse_error_logs(data, whole=whole) == ErrorLogs(user, platform)


async def test_a_job_that_was_stopped_says_nothing_of_the_program(pai: Pai) -> None:
    made = await pai.house.submit(job(roles={"worker": role("sleep 100")}), pai.alice)
    await pai.house.until(made.id, JobState.RUNNING)
    assert (await pai.user.put("/v2/jobs/alice~train/executionType", json={"value": "STOP"})).status_code == 202
    await pai.house.until(made.id)
    status = (await detail(pai))["jobStatus"]
    assert (status["state"], status["appExitCode"], status["appExitType"]) == ("STOPPED", -210, "Failed")
    assert status["appExitMessages"] == {"container": None, "runtime": None, "launcher": "Cancelled by alice"}


async def test_a_job_that_runs_has_no_exit_yet(pai: Pai) -> None:
    made = await pai.house.submit(job(roles={"worker": role("sleep 100")}), pai.alice)
    await pai.house.until(made.id, JobState.RUNNING)
    body = await detail(pai)
    status = body["jobStatus"]
    assert (status["state"], status["subState"], status["attemptState"]) == ("RUNNING", "AttemptRunning", "RUNNING")
    assert {key: status[key] for key in EXIT_KEYS} == dict.fromkeys(EXIT_KEYS)
    assert (status["completedTime"], status["appCompletedTime"]) == (None, None)
    assert status["launchedTime"] > 1_600_000_000_000  # milliseconds
    task = only_task(body)
    assert task["taskState"] == "RUNNING"
    attempt_id = pai.house.engine.list_running()[0]
    assert task["containerId"] == build_container_uid(attempt_id)
    assert task["taskUid"] == build_task_uid(made.id, 0, "worker", 0)
    assert task["containerNodeName"] == "fake"
    assert task["containerIp"] == "127.0.0.1"
    assert (task["containerExitCode"], task["containerExitSpec"]) == (None, None)
    path = "/api/v2/jobs/alice~train/attempts/0/taskRoles/worker/taskIndex/0/attempts/0/logs"
    assert task["containerLog"] == path


async def test_ports_are_strings_and_there_as_soon_as_placed(pai: Pai) -> None:
    asked = {"ports": {"debug": 1, "many": 3}}
    made = await pai.house.submit(job(roles={"worker": role("sleep 9", asked=asked)}), pai.alice)
    await pai.house.until(made.id, JobState.PREPARING, JobState.RUNNING)
    ports = only_task(await detail(pai))["containerPorts"]
    assert set(ports) == {"debug", "many", "ssh", "http"}
    numbers = [int(number) for text in ports.values() for number in text.split(",")]
    assert len(ports["many"].split(",")) == 3
    assert len(set(numbers)) == 6
    assert all(15000 <= number < 40000 for number in numbers)


async def test_a_job_that_waits_shows_its_tasks_already(tmp_path: Path) -> None:
    engine = FakeEngine(nodes=[Node(name="n1", cpu=1, memory=2**33, address="10.9.8.7")])
    async with open_pai(tmp_path / "home", engine=engine) as pai:
        first = await pai.house.submit(job("first", {"worker": role("sleep 9")}), pai.alice)
        await pai.house.until(first.id, JobState.RUNNING)
        await pai.house.submit(job(roles={"worker": role(instances=1)}), pai.alice)
        assert only_task(await detail(pai, "first"))["containerIp"] == "10.9.8.7"
        body = await detail(pai)
        assert body["jobStatus"]["state"] == "WAITING"
        assert body["jobStatus"]["subState"] == "AttemptCreationPending"
        assert body["jobStatus"]["attemptId"] == 0
        assert body["jobStatus"]["launchedTime"] is None
        task = only_task(body)
        assert task["taskState"] == "WAITING"
        assert (task["containerId"], task["containerIp"], task["containerNodeName"]) == (None, None, None)
        assert task["containerPorts"] == {}


async def test_several_roles_in_order_and_by_plain_names(pai: Pai) -> None:
    roles = {"PS_server": role("sleep 9"), "worker": role("sleep 9", instances=2)}
    made = await pai.house.submit(job(roles=roles), pai.alice)
    await pai.house.until(made.id, JobState.RUNNING)
    body = await detail(pai)
    assert list(body["taskRoles"]) == ["psserver", "worker"]
    assert body["taskRoles"]["psserver"]["taskRoleStatus"] == {"name": "psserver"}
    assert [task["taskIndex"] for task in body["taskRoles"]["worker"]["taskStatuses"]] == [0, 1]
    assert "/taskRoles/psserver/" in body["taskRoles"]["psserver"]["taskStatuses"][0]["containerLog"]


async def test_tasks_killed_because_others_decided(pai: Pai) -> None:
    roles = {"chief": role("exit 1"), "worker": role("sleep 9", instances=2)}
    await ran(pai, job(roles=roles))
    body = await detail(pai)
    assert body["jobStatus"]["appExitTriggerTaskRoleName"] == "chief"
    for task in body["taskRoles"]["worker"]["taskStatuses"]:
        assert (task["taskState"], task["containerExitCode"]) == ("STOPPED", -220)


async def test_no_rule_ever_decided(pai: Pai) -> None:
    never = {"minFailedInstances": -1, "minSucceededInstances": -1}
    await ran(pai, job(roles={"worker": role("exit 1", instances=3, completion=never)}))
    status = (await detail(pai))["jobStatus"]
    assert status["state"] == "SUCCEEDED"
    assert status["appExitTriggerMessage"] == (
        "CompletedTaskCount 3 has reached TotalTaskCount 3 and no user specified conditions in "
        "FrameworkAttemptCompletionPolicy have ever been triggered"
    )
    assert status["appExitTriggerTaskRoleName"] is None


async def test_two_attempts_are_both_told(pai: Pai) -> None:
    await ran(pai, job(roles={"worker": role("exit 3")}, jobRetryCount=1))
    newest = await detail(pai)
    status = newest["jobStatus"]
    assert (status["attemptId"], status["retries"], status["state"]) == (1, 1, "FAILED")
    assert status["retryDetails"] == {"user": 1, "platform": 0, "resource": 0}
    assert "/attempts/1/taskRoles/" in only_task(newest)["containerLog"]
    assert await detail(pai, more="/attempts/1") == newest
    first = await detail(pai, more="/attempts/0")
    assert first["jobStatus"]["attemptId"] == 0
    assert first["jobStatus"]["attemptState"] == "FAILED"
    assert first["jobStatus"]["appExitCode"] == 255
    assert first["jobStatus"]["retries"] == 1
    assert first["jobStatus"]["appId"] != status["appId"]
    assert only_task(first)["containerId"] != only_task(newest)["containerId"]
    assert only_task(first)["containerExitCode"] == 255
    assert first["jobStatus"]["appCompletedTime"] <= status["appCompletedTime"]


async def test_between_two_attempts_it_shows_as_running(pai: Pai) -> None:
    made = await pai.house.submit(job(roles={"worker": role("sleep 9")}), pai.alice)
    await pai.house.until(made.id, JobState.RUNNING)
    (running,) = pai.house.engine.list_running()
    pai.house.engine.lose_task(running)
    await pai.house.until(made.id, JobState.PENDING)
    status = (await detail(pai))["jobStatus"]
    assert (status["state"], status["subState"]) == ("RUNNING", "AttemptCompleted")
    assert (status["attemptState"], status["appExitCode"]) == ("FAILED", -1001)
    assert status["retryDelayTime"] in (0, 1)
    assert status["retryDetails"] == {"user": 0, "platform": 1, "resource": 0}
    assert status["completedTime"] is None


async def test_a_stopped_job(pai: Pai) -> None:
    made = await pai.house.submit(job(roles={"worker": role("trap '' TERM", "sleep 9")}), pai.alice)
    await pai.house.until(made.id, JobState.RUNNING)
    await asyncio.sleep(0)
    await pai.house.services.jobs.stop(pai.alice, made.id)
    status = (await detail(pai))["jobStatus"]
    assert (status["state"], status["executionType"]) == ("STOPPING", "STOP")
    assert status["subState"] == "AttemptDeleting"
    pai.house.engine.finish_task(pai.house.engine.list_running()[0], 137)
    await pai.house.until(made.id)
    body = await detail(pai)
    status = body["jobStatus"]
    assert (status["state"], status["subState"], status["appExitCode"]) == ("STOPPED", "Completed", -210)
    assert (status["executionType"], status["attemptState"]) == ("STOP", "STOPPED")
    assert status["appExitSpec"]["phrase"] == "StopFrameworkRequested"
    assert status["appExitTriggerMessage"] is None
    assert status["appExitDiagnostics"] == "Cancelled by alice"
    assert only_task(body)["containerExitCode"] == -210


async def test_others_stop_once_it_is_decided(pai: Pai) -> None:
    roles = {"chief": role("sleep 9"), "worker": role("trap '' TERM", "sleep 9")}
    made = await pai.house.submit(job(roles=roles), pai.alice)
    await pai.house.until(made.id, JobState.RUNNING)
    async with asyncio.timeout(20):
        while len(pai.house.engine.list_running()) < 2:
            await asyncio.sleep(0.01)
        chief = next(each for each in pai.house.engine.list_running() if ".chief-" in each)
        pai.house.engine.finish_task(chief, 1)
        while not pai.house.engine.machine.stops:
            await asyncio.sleep(0.01)
    body = await detail(pai)
    assert body["jobStatus"]["state"] == "RUNNING"
    assert body["jobStatus"]["appExitCode"] is None
    assert only_task(body, "chief")["taskState"] == "FAILED"
    assert only_task(body, "worker")["taskState"] == "STOPPING"


async def test_stopped_while_the_next_attempt_is_waited_for(pai: Pai) -> None:
    made = await pai.house.submit(job(roles={"worker": role("sleep 9")}), pai.alice)
    await pai.house.until(made.id, JobState.RUNNING)
    blocked = Condition(kind=ConditionKind.SANDBOX, message="Tasks cannot be isolated.", blocks_starts=True)
    pai.house.engine.set_conditions(blocked)  # so that the next attempt does not start before it is stopped
    pai.house.engine.lose_task(pai.house.engine.list_running()[0])
    await pai.house.until(made.id, JobState.PENDING)
    await pai.house.services.jobs.stop(pai.alice, made.id)
    await pai.house.until(made.id)
    body = await detail(pai)
    assert (body["jobStatus"]["state"], body["jobStatus"]["appExitCode"]) == ("STOPPED", -210)
    assert only_task(body)["containerExitCode"] == -1001
    (item,) = (await pai.user.get("/v2/jobs")).json()
    assert item["appExitCode"] == -210


async def test_a_refused_job(pai: Pai) -> None:
    await ran(pai, job(roles={"worker": role(asked={"gpu": 64})}))
    body = await detail(pai)
    status = body["jobStatus"]
    assert (status["state"], status["appExitCode"]) == ("FAILED", -1100)
    assert status["appExitSpec"]["phrase"] == "CreateFrameworkPermanentFailed"
    assert "System Error" in status["appExitDiagnostics"]
    assert status["appExitMessages"]["launcher"]
    assert status["launchedTime"] == status["completedTime"]
    assert only_task(body)["containerId"] is None


async def test_out_of_memory(pai: Pai) -> None:
    made = await pai.house.submit(job(roles={"worker": role("sleep 9")}), pai.alice)
    await pai.house.until(made.id, JobState.RUNNING)
    pai.house.engine.finish_task(pai.house.engine.list_running()[0], 137, oom=True)
    await pai.house.until(made.id)
    status = (await detail(pai))["jobStatus"]
    assert (status["appExitCode"], status["appExitSpec"]["phrase"]) == (-1200, "UserContainerDockerOOMKilled")
    assert status["appExitMessages"]["runtime"] is None  # not its own doing
    assert "memory" in status["appExitMessages"]["launcher"]


async def test_the_time_limit(pai: Pai) -> None:
    limit = {"holdfast": {"time_limit": "1s"}}
    await ran(pai, job(roles={"worker": role("sleep 9")}, extras=limit))
    body = await detail(pai)
    status = body["jobStatus"]
    assert (status["state"], status["appExitCode"]) == ("FAILED", -1004)
    assert status["appExitTriggerMessage"] is None
    assert "time limit" in status["appExitDiagnostics"]
    assert only_task(body)["taskState"] == "FAILED"


async def test_tries_of_one_task(pai: Pai) -> None:
    text = job(roles={"the_worker": role("exit 3", taskRetryCount=2)}, extras={"gangAllocation": False})
    await ran(pai, text)
    path = "/v2/jobs/alice~train/attempts/0/taskRoles/{}/taskIndex/0/attempts"
    body = (await pai.user.get(path.format("theworker"))).json()
    assert (await pai.user.get(path.format("the_worker"))).json() == body
    assert {key: body[key] for key in ("username", "jobName", "jobAttemptId", "taskRoleName", "taskIndex")} == {
        "username": "alice",
        "jobName": "train",
        "jobAttemptId": 0,
        "taskRoleName": "theworker",
        "taskIndex": 0,
    }
    assert (body["retries"], body["accountableRetries"], body["taskState"]) == (2, 2, "FAILED")
    assert [each["attemptId"] for each in body["attempts"]] == [2, 1, 0]
    assert len({each["containerId"] for each in body["attempts"]}) == 3
    for each in body["attempts"]:
        assert (each["attemptState"], each["containerExitCode"]) == ("FAILED", 255)
        assert each["containerLog"].endswith(f"/attempts/{each['attemptId']}/logs")
        assert set(each) == (TASK_KEYS - set(body)) | {"attemptId", "attemptState"}
    task = only_task(await detail(pai), "theworker")
    assert (task["attemptId"], task["retries"]) == (2, 2)
    assert task["launchedTime"] == body["launchedTime"] == body["attempts"][-1]["currentAttemptLaunchedTime"]


@pytest.mark.parametrize(
    ("path", "message"),
    [
        ("alice~nothing", "Job alice~nothing is not found."),
        ("nothing", "Job nothing is not found."),
        ("~train", "Job ~train is not found."),
        ("alice~", "Job alice~ is not found."),
        ("alice~tr%00ain", "Job alice~tr\0ain is not found."),
        ("alice~train/attempts/7", "JobAttemptId 7 is not found in alice~train."),
        ("alice~train/attempts/-1", "JobAttemptId -1 is not found in alice~train."),
        ("alice~train/attempts/x%00", "JobAttemptId x\0 is not found in alice~train."),
        ("alice~train/attempts/99999999999999999999", "JobAttemptId 99999999999999999999 is not found in alice~train."),
        ("alice~train/attempts/0/taskRoles/no/taskIndex/0/attempts", None),
        ("alice~train/attempts/0/taskRoles/worker/taskIndex/1/attempts", None),
        ("alice~train/attempts/0/taskRoles/worker/taskIndex/x/attempts", None),
        ("alice~train/attempts/3/taskRoles/worker/taskIndex/0/attempts", None),
        (f"alice~{'x' * 3000}", None),
    ],
)
async def test_what_is_not_there(pai: Pai, path: str, message: str | None) -> None:
    await ran(pai, job())
    refused(await pai.user.get(f"/v2/jobs/{path}"), 404, "NoJobError", message)


async def test_what_one_may_not_see_is_not_there(pai: Pai) -> None:
    await ran(pai, job())
    stranger = await pai.new_user("bob", "elsewhere")
    for more in ("", "/attempts/0", "/config", "/events", "/ssh", "/job-attempts", "/job-attempts/0"):
        refused(await stranger.get(f"/v2/jobs/alice~train{more}"), 404, "NoJobError", "Job alice~train is not found.")
        refused(await pai.guest.get(f"/v2/jobs/alice~train{more}"), 401, "UnauthorizedUserError")


async def test_the_newest_of_several_of_one_name(pai: Pai) -> None:
    await pai.house.run("{name: twice, command: exit 1}", pai.alice)
    await pai.house.run("{name: twice, command: 'true'}", pai.alice)
    assert (await detail(pai, "twice"))["jobStatus"]["state"] == "SUCCEEDED"


async def test_names_of_ours_that_need_quoting(pai: Pai) -> None:
    await pai.house.run(json.dumps({"name": "a/b ~ ü", "command": "true"}), pai.alice)
    body = (await pai.user.get("/v2/jobs/alice~a%2Fb%20~%20%C3%BC")).json()
    assert body["name"] == "a/b ~ ü"
    task = only_task(body, "main")
    assert task["containerLog"].startswith("/api/v2/jobs/alice~a%2Fb%20~%20%C3%BC/attempts/0/")


async def test_a_large_job(pai: Pai) -> None:
    asked = {"cpu": 100_000}
    await pai.house.submit(job(roles={"worker": role(instances=600, asked=asked)}), pai.alice)
    body = await detail(pai)
    assert [task["taskIndex"] for task in body["taskRoles"]["worker"]["taskStatuses"]] == list(range(600))


async def test_history_of_attempts(pai: Pai) -> None:
    await ran(pai, job(roles={"worker": role("exit 3")}, jobRetryCount=1))
    base = "/v2/jobs/alice~train/job-attempts"
    every = (await pai.user.get(base)).json()
    assert [each["attemptIndex"] for each in every] == [1, 0]
    assert [each["isLatest"] for each in every] == [True, False]
    assert (await pai.user.get(f"{base}/0")).json() == every[1]
    assert (await pai.user.get(f"{base}/1")).json() == every[0]
    first = every[1]
    assert first["uid"] == every[0]["uid"]  # the job's
    assert (first["userName"], first["jobName"], first["state"]) == ("alice", "train", "FAILED")
    assert (first["exitCode"], first["exitPhrase"], first["exitType"]) == (255, "PAIRuntimeUnknownFailed", "Failed")
    assert first["exitDiagnostics"]["runtime"]["originUserExitCode"] == 3
    assert first["exitDiagnostics"]["launcher"] == first["exitDiagnostics"]["diagnosticsSummary"]  # always a text
    assert set(first["taskRoles"]["worker"]["taskStatuses"][0]) == {
        "taskIndex", "taskState", "containerId", "containerIp", "containerGpus", "containerLog", "containerExitCode",
    }  # fmt: skip
    assert (first["totalTaskNumber"], first["totalTaskRoleNumber"], first["jobPriority"]) == (1, 1, None)
    health = await pai.user.get(f"{base}/healthz")
    assert (health.status_code, health.text) == (200, "ok")
    refused(await pai.user.get(f"{base}/2"), 404, "NoJobError", "JobAttemptId 2 is not found in alice~train.")


async def test_ssh_info_of_what_is_over_is_not_kept(pai: Pai) -> None:
    await ran(pai, job())
    said = refused(await pai.user.get("/v2/jobs/alice~train/ssh"), 404, "NoJobSshInfoError")
    assert "gateway is disabled" in said
    pai.house.services.ssh_gateway.port = 2222
    said = refused(await pai.user.get("/v2/jobs/alice~train/ssh"), 404, "NoJobSshInfoError")
    assert "its containers no longer exist" in said
