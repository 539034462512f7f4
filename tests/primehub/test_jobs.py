"""`primehub jobs ...` and ph.jobs against a real server: what they print, and what our own API then says."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from primehub.utils import GraphQLException, ResourceNotFoundException

from .place import FORM, GROUP, Place, User

FINAL = ("Succeeded", "Failed", "Cancelled")


def test_from_submit_to_artifacts(ann: User, tmp_path: Path) -> None:
    command = "echo hello\nmkdir -p artifacts/sub\necho result > artifacts/sub/a.txt"
    made = ann.json("jobs", "submit", given={**FORM, "displayName": "first", "command": command})
    assert (made["displayName"], made["phase"], made["userName"]) == ("first", "Pending", "ann")
    assert (made["groupId"], made["groupName"], made["recurrence"]) == (GROUP, GROUP, None)
    waited = ann.json("jobs", "wait", made["id"])
    assert (waited["phase"], waited["reason"], waited["message"]) == ("Succeeded", "PodSucceeded", "Job completed")
    assert ann.json("jobs", "get", made["id"]) == waited
    assert "hello\n" in ann.run("jobs", "logs", made["id"])
    (artifact,) = ann.json("jobs", "list-artifacts", made["id"])
    assert (artifact["name"], artifact["size"]) == ("sub/a.txt", 7)
    ann.run("jobs", "download-artifacts", made["id"], "sub/a.txt", str(tmp_path / "mine.txt"))
    assert (tmp_path / "mine.txt").read_text() == "result\n"
    ann.run("jobs", "download-artifacts", made["id"], ".", str(tmp_path), "--recursive")
    assert (tmp_path / made["id"] / "sub" / "a.txt").read_text() == "result\n"
    told = ann.rest(f"/jobs/{made['id']}")
    assert (told["name"], told["state"], told["group"], told["user"]) == ("first", "Succeeded", GROUP, "ann")


@pytest.mark.release
def test_a_job_as_people_see_it(ann: User) -> None:
    made = ann.json("jobs", "submit", given={**FORM, "displayName": "to look at"})
    ann.run("jobs", "wait", made["id"])
    shown = ann.run("jobs", "get", made["id"]).splitlines()
    assert shown[0].split() == ["id:", made["id"]]
    assert shown[1].split(maxsplit=1) == ["displayName:", "to look at"]
    assert shown[2].split() == ["cancel:", "False"]
    row = next(line for line in ann.run("jobs", "list", "--page", "1").splitlines() if made["id"] in line)
    assert row.split()[-1] == "Succeeded"
    assert "to look at" in row


def test_a_job_from_a_file(ann: User, tmp_path: Path) -> None:
    path = tmp_path / "job.json"
    path.write_text(json.dumps({**FORM, "displayName": "from a file", "activeDeadlineSeconds": 77}))
    made = json.loads(ann.run("--json", "jobs", "submit", "--file", str(path)))
    assert made["displayName"] == "from a file"
    assert ann.rest(f"/jobs/{made['id']}")["time_limit"] == 77


@pytest.mark.release
def test_all_pages_are_listed_and_end(hub: Place, bob: User) -> None:
    made = {hub.submit(bob, displayName=f"page {n}", command="true") for n in range(12)}
    listed = [job["id"] for job in bob.json("jobs", "list")]
    assert made <= set(listed)
    assert len(listed) == len(set(listed))
    assert len(bob.json("jobs", "list", "--page", "1")) == 10
    assert bob.json("jobs", "list", "--page", "999") == []


@pytest.mark.release
def test_cancel_is_seen_at_once_and_by_our_api(hub: Place, ann: User) -> None:
    id = hub.submit(ann, command="sleep 1000")
    cancelled = ann.json("jobs", "cancel", id)
    assert (cancelled["phase"], cancelled["cancel"], cancelled["message"]) == ("Cancelled", True, "Cancelled by user")
    assert ann.json("jobs", "wait", id)["phase"] == "Cancelled"
    assert hub.server.wait(id)["state"] == "Cancelled"


@pytest.mark.release
def test_a_rerun_is_another_job_with_the_same_time_limit(hub: Place, ann: User) -> None:
    id = hub.submit(ann, command="echo again", activeDeadlineSeconds=99)
    ann.run("jobs", "wait", id)
    again = ann.json("jobs", "rerun", id)
    assert again["id"] != id
    assert (again["command"], again["schedule"]) == ("echo again", None)
    told = ann.rest(f"/jobs/{again['id']}")
    assert told["time_limit"] == 99
    assert told["rerun_of"] == id


@pytest.mark.release
def test_waiting_can_end_early(hub: Place, ann: User) -> None:
    id = hub.submit(ann, command="sleep 1000")
    assert ann.json("jobs", "wait", id, "--timeout", "1")["phase"] not in FINAL
    ann.run("jobs", "cancel", id)


@pytest.mark.release
def test_logs_whole_last_lines_and_followed(hub: Place, ann: User) -> None:
    id = hub.submit(ann, command='for n in $(seq 30); do echo "Zeile $n: äöü €"; done; sleep 1; echo last')
    lines = [f"Zeile {n}: äöü €" for n in range(1, 31)]
    assert ann.run("jobs", "logs", id, "--follow", "--tail", "100000").splitlines()[-31:] == [*lines, "last"]
    assert ann.run("jobs", "logs", id).splitlines() == [*lines[-9:], "last"]
    assert ann.run("jobs", "logs", id, "--tail", "1").splitlines() == ["last"]


@pytest.mark.release
def test_a_long_log_of_many_letters_can_be_followed(hub: Place, ann: User) -> None:
    id = hub.submit(ann, command="for n in $(seq 5000); do echo \"€€€€€€€€€€ $n\"; done; printf '😀%.0s' $(seq 9000)")
    followed = ann.run("jobs", "logs", id, "--follow", "--tail", "1000000")
    assert followed.endswith("€€€€€€€€€€ 5000\n" + "😀" * 9000)
    assert len(followed.splitlines()) >= 5001


@pytest.mark.release_after(1)
@pytest.mark.parametrize("command", ["get", "cancel", "rerun", "wait", "logs", "list-artifacts"])
def test_what_is_not_there_is_said(ann: User, command: str) -> None:
    said = ann.fails("jobs", command, "job-202001010000-nothing")
    assert 'Cannot find resource type "job" with [id: job-202001010000-nothing]' in said


def test_jobs_of_other_groups_are_not_there(hub: Place, ann: User) -> None:
    id = hub.submit(ann)
    assert f'Cannot find resource type "job" with [id: {id}]' in hub.zoe.fails("jobs", "get", id)
    assert id not in [job["id"] for job in hub.zoe.json("jobs", "list")]


@pytest.mark.release
def test_what_is_wrong_is_refused(ann: User) -> None:
    assert "EXCEED_QUOTA" not in ann.fails("jobs", "submit", given={**FORM, "instanceType": "cpu-99"})
    said = ann.fails("--json", "jobs", "submit", given={**FORM, "colour": "red"})
    assert "colour" in said
    assert "displayName is required" in ann.fails("jobs", "submit", given={"command": "true"})


def test_without_a_good_token_nothing_is_told(hub: Place, ann: User) -> None:
    assert "Invalid API Token" in ann.fails("--token", "nonsense", "jobs", "list")


def test_a_failed_job_says_why(hub: Place, ann: User) -> None:
    id = hub.submit(ann, command="echo oh; exit 7")
    found = ann.json("jobs", "wait", id)
    assert (found["phase"], found["reason"]) == ("Failed", "PodFailed")
    assert found["message"].startswith("Job failed due to Error: Exit code 7")
    id = hub.submit(ann, command="sleep 1000", activeDeadlineSeconds=1)
    assert ann.json("jobs", "wait", id)["reason"] == "OverActivateDeadline"
    id = hub.submit(ann, image="tf-99")
    assert ann.json("jobs", "wait", id)["message"] == "Image not found: tf-99"


def test_the_library(ann: User) -> None:
    hub = ann.library()
    made = hub.jobs.submit({**FORM, "displayName": "by the library"})
    assert hub.jobs.wait(made["id"])["phase"] == "Succeeded"
    assert made["id"] in [job["id"] for job in hub.jobs.list()]
    assert b"".join(hub.jobs.logs(made["id"], tail=1)) == b"hi\n"
    assert hub.jobs.list_artifacts(made["id"]) == []
    again = hub.jobs.rerun(made["id"])
    assert hub.jobs.cancel(again["id"])["id"] == again["id"]
    with pytest.raises(ResourceNotFoundException):
        hub.jobs.get("nope")
    with pytest.raises(GraphQLException):
        hub.jobs.submit({**FORM, "instanceType": "cpu-99"})


def test_jobs_of_our_own_are_listed_too(hub: Place, ann: User) -> None:
    made = hub.server.submit("name: ours\ncommands: [echo ours]\n", group=GROUP)
    found = ann.json("jobs", "wait", made["id"])
    assert (found["displayName"], found["command"], found["phase"]) == ("ours", "echo ours", "Succeeded")
