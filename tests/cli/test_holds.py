"""Failed tasks that are kept, by command line, against a real server that really runs them."""

from __future__ import annotations

import json
import subprocess
import time
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
import typer

from holdfast.cli.jobs.hold_options import HoldOptions

from .cli_runner import TIMEOUT, Cli, start

DAY = 86400
CRASH = ("--cpu", "0.1", "--memory", "64Mi", "--name", "crash", "--", "echo it goes wrong; exit 3")


def held(cli: Cli, *options: str) -> str:
    result = cli("submit", "--wait", "--json", *(options or ("--hold",)), *CRASH)
    assert result.code == 3, result.err
    assert result.json["state"] == "Held"
    return str(result.json["id"])


def tasks(cli: Cli, job: str) -> list[dict[str, Any]]:
    return list(cli.ok("show", job, "--json").json["tasks"])


def left(cli: Cli, job: str) -> float:
    """Days from the beginning of its hold to the end of it."""
    hold = tasks(cli, job)[0]["held"]
    span = datetime.fromisoformat(hold["until"]) - datetime.fromisoformat(hold["since"])
    return span.total_seconds() / DAY


@pytest.mark.parametrize(
    ("hold", "length", "files", "word"),
    [
        (None, None, False, None),
        (True, None, False, "all"),
        (False, None, False, "false"),
        (None, "3d", False, "all:259200s"),
        (True, "90", False, "all:90s"),
        (None, None, True, "files"),
        (None, "12h", True, "files:43200s"),
    ],
)
def test_options_in_a_word(hold: bool | None, length: str | None, files: bool, word: str | None) -> None:
    assert HoldOptions(hold, length, files).build_hold_parameter() == word


@pytest.mark.parametrize(
    "given", [(False, "3d", False), (False, None, True), (None, "0s", False), (None, "much", False)]
)
def test_options_that_do_not_go_together(given: tuple[bool | None, str | None, bool]) -> None:
    with pytest.raises(typer.BadParameter):
        HoldOptions(*given).build_hold_parameter()


def test_from_failure_to_release(cli: Cli) -> None:
    result = cli("submit", "--follow", "--hold", *CRASH)
    assert result.code == 3
    assert result.text.startswith("it goes wrong\n")
    assert "job has finished with exit code 3\n" in result.text
    assert "The job container failed, so it will be reserved for 1 week" in result.text
    assert "held after" in result.err
    job = cli.ok("ls", "--json", "--limit", "1").json["items"][0]
    assert (job["state"], job["held_until"] is not None) == ("Held", True)
    shown = cli.ok("show", job["id"]).text
    assert "held        main-0 until " in shown
    assert "left; with processes and resources" in shown
    assert "6d23h left" in cli.ok("ls", "--state", "held").text
    assert "6d23h left" in cli.ok("top", "--once").text
    said = cli.ok("release", job["id"]).text
    assert said == f"Released main-0 of crash ({job['id']}).\n"
    ended = cli("wait", job["id"], "--json")
    assert (ended.code, ended.json["state"], ended.json["held_until"]) == (3, "Failed", None)
    again = cli("release", job["id"])
    assert again.code == 1
    assert f"holdfast rerun {job['id']} --hold" in again.err


def test_extending_it(cli: Cli) -> None:
    job = held(cli, "--hold-for", "2d")
    assert left(cli, job) == 2
    assert "main-0 is held until" in cli.ok("extend", job, "--for", "3d").text
    assert left(cli, job) == 5
    cli.ok("extend", job, "main-0")
    assert left(cli, job) == 12
    refused = cli("extend", job, "--for", "30d")
    assert refused.code == 1
    assert "(4 weeks in total)" in refused.err
    assert cli("extend", job, "--for", "1d", "--until", "2030-01-01").code == 2
    assert cli("extend", job, "--until", "3d").code == 2
    assert cli("extend", job, "main-7").code == 1
    report = cli.ok("extend", job, "--files-only", "--json").json
    assert [(each["task"], each["keep"]) for each in report["tasks"]] == [("main-0", "files")]
    cli.ok("stop", job, "--wait")
    ended = cli("wait", job, "--json")
    assert (ended.code, ended.json["state"]) == (3, "Failed")


def test_files_alone_give_the_resources_back(cli: Cli) -> None:
    job = held(cli, "--hold-files")
    began = time.monotonic()
    while not tasks(cli, job)[0]["held"]["ended"]:
        assert time.monotonic() - began < TIMEOUT
    assert "files only" in cli.ok("show", job).text
    assert cli.ok("group", "show", "default", "--json").json["used"]["cpu"] == 0
    cli.ok("release", job)
    assert cli("wait", job).code == 3


def test_a_file_is_held_by_option_and_a_rerun_as_before_or_not(cli: Cli, tmp_path: Path) -> None:
    file = tmp_path / "job.yaml"
    file.write_text("name: crash\ncommand: exit 4\nresources: {cpu: 0.1, memory: 64Mi}\n")
    first = cli("submit", str(file), "--wait", "--json", "--hold")
    assert (first.code, first.json["state"]) == (4, "Held")
    again = cli("rerun", first.json["id"], "--wait", "--json")
    assert again.json["state"] == "Held"
    third = cli("rerun", first.json["id"], "--no-hold", "--wait", "--json")
    assert third.json["state"] == "Failed"
    planned = cli.ok("plan", str(file), "--hold-for", "1h", "--json").json
    assert planned["job"]["hold"] == {"duration": 3600, "keep": "all"}
    for job in (first, again):
        cli.ok("release", job.json["id"])


def test_a_task_that_may_not_be_held_says_why(cli: Cli) -> None:
    """Ten of a user may be."""
    role = {"instances": 11, "command": "exit 3", "resources": {"cpu": 0.1, "memory": "64Mi"}}
    text = json.dumps({"name": "crowd", "hold": True, "roles": {"worker": role}})
    job = cli.ok("submit", "--json", "-", stdin=text.encode()).json["id"]
    deadline = time.monotonic() + TIMEOUT
    while {task["state"] for task in tasks(cli, job)} != {"Held", "Failed"}:
        assert time.monotonic() < deadline, cli("show", job).text
        time.sleep(0.05)
    shown = [line for line in cli.ok("show", job).text.splitlines() if "  not held    " in line]
    refused = [task["task"] for task in tasks(cli, job) if task["state"] == "Failed"]
    why = "Tasks of admin on hold: 10; the limit is 10. Release one with `holdfast release`."
    assert shown == [f"  not held    {task}: {why}" for task in refused]
    cli.ok("release", job)
    cli("wait", job)
    assert shown[0] in cli.ok("show", job).text.splitlines()
    assert "not held" not in cli.ok("show", cli.ok("rerun", job, "--no-hold", "--json").json["id"]).text


def test_a_groups_hold(cli: Cli) -> None:
    cli.ok("group", "add", "careful", "--hold", "files:2d")
    assert "hold        files:2d" in cli.ok("group", "show", "careful").text
    job = cli.ok("submit", "--json", "--group", "careful", "--", "exit 0").json["id"]
    assert cli.ok("show", job, "--json").json["job"]["hold"] == {"duration": 2 * DAY, "keep": "files"}
    assert "hold 7d" in cli.ok("group", "set", "careful", "--hold", "7d").text
    assert json.loads(cli.ok("group", "set", "careful", "--hold", "off", "--json").text)["hold"] is None
    assert cli("group", "set", "careful", "--hold", "sometimes").code == 1


def test_a_job_says_beforehand_what_becomes_of_it(cli: Cli) -> None:
    job = cli.ok("submit", "--hold-for", "2d", "--cpu", "0.1", "--", "sleep 100").text.strip()
    assert "on failure  hold for 2d0h" in cli.ok("show", job).text
    cli.ok("stop", job, "--wait")
    assert "on failure" not in cli.ok("show", job).text


@pytest.mark.release_after(1)
@pytest.mark.parametrize("by", ["submit", "logs"])
def test_whoever_follows_a_job_is_told_once_that_held_tasks_have_what_it_waits_for(
    cli: Cli, place: dict[str, str], by: str
) -> None:
    group = f"narrow-{by}"
    cli.ok("group", "add", group, "--cpu", "0.15")
    job = held(cli, "--hold", "--group", group)
    submit = ("submit", "--group", group, "--cpu", "0.1", "--memory", "64Mi")
    args: tuple[str, ...] = (*submit, "--follow", "--", "echo it runs")
    if by == "logs":
        args = ("logs", "--follow", cli.ok(*submit, "--", "echo it runs").text.strip())
    follower = start(*args, env=place, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert follower.stderr is not None
    said: list[str] = []
    while not any("Tasks on hold" in line for line in said):
        line = follower.stderr.readline().decode()
        assert line, said
        said.append(line)
    assert f"waiting: The quota of group {group} is 0.15 cores, 0.1 in use, 0.1 requested.\n" in said
    assert said[-1].startswith(
        "waiting: Tasks on hold (1) use 0.1 cores. Their owners can free it with `holdfast release`"
    )
    cli.ok("release", job)
    out, rest = follower.communicate(timeout=TIMEOUT)
    assert (follower.returncode, out.splitlines()[-1], b"waiting:" in rest) == (0, b"it runs", False)
