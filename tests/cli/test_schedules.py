"""Schedules by command line."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from holdfast.cli.jobs.schedule_options import complete_schedule

from .cli_runner import Cli


@pytest.fixture
def file(tmp_path: Path) -> str:
    path = tmp_path / "job.yaml"
    path.write_text("name: nightly\ncommand: echo hello\n")
    return str(path)


@pytest.fixture(autouse=True)
def none_left(cli: Cli) -> Iterator[None]:
    """The server is shared by all tests."""
    yield
    for one in cli.ok("schedule", "ls", "--json").json["items"]:
        cli.ok("schedule", "rm", one["id"], "--yes")


def test_a_schedule_from_beginning_to_end(cli: Cli, file: str) -> None:
    args = ("--cron", "30 4 * * MON-FRI", "--zone", "Asia/Taipei", "--overlap", "queue", "--until", "3000d")
    shown = cli.ok("schedule", "add", file, *args, "--missed", "once").text
    assert re.match(r"nightly  recurrence-\w{6}\n", shown)
    assert "  when        30 4 * * MON-FRI, time zone Asia/Taipei\n" in shown
    assert "  overlap     wait for the previous job to end\n" in shown
    assert "  missed      run once for all missed runs\n" in shown
    assert len(re.findall(r"\d{4}-\d\d-\d\d 04:30 CST  in \d", shown)) == 5
    listed = cli.ok("schedule", "ls").text
    assert re.search(r"recurrence-\w{6}  nightly  30 4 \* \* MON-FRI  \d{4}-\d\d-\d\d 04:30 CST  in ", listed)
    (one,) = cli.ok("schedule", "ls", "--json").json["items"]
    assert complete_schedule("recurrence-") == [one["id"]]
    assert complete_schedule("x") == []
    assert cli.ok("schedule", "show", "nightly", "--json").json["id"] == one["id"]
    assert cli.ok("schedule", "show", one["id"].removeprefix("recurrence-"), "--json").json["id"] == one["id"]
    assert "No runs yet" in cli.ok("schedule", "runs", "nightly").err
    assert cli("schedule", "rm", "nightly").code == 1  # there is no terminal to ask on
    assert cli.ok("schedule", "rm", "nightly", "-y").text == f"Deleted {one['id']}.\n"
    assert "Schedule nightly not found" in cli("schedule", "show", "nightly").err
    assert f"Schedule {one['id']} not found" in cli("schedule", "show", one["id"]).err


def test_changing_what_is_given(cli: Cli, file: str, tmp_path: Path) -> None:
    made = cli.ok("schedule", "add", file, "--every", "day", "--zone", "Europe/Berlin", "--json").json
    assert made["recurrence"] == {"kind": "daily", "cron": None, "timezone": "Europe/Berlin"}

    def change(*args: str) -> dict[str, object]:
        return dict(cli.ok("schedule", "set", made["id"], *args, "--json").json)

    assert change("--zone", "Asia/Taipei")["recurrence"] == {"kind": "daily", "cron": None, "timezone": "Asia/Taipei"}
    weekly = {"kind": "weekly", "cron": None, "timezone": "Asia/Taipei"}
    assert change("--every", "week")["recurrence"] == weekly
    custom = {"kind": "custom", "cron": "0 0 29 2 *", "timezone": "Asia/Taipei"}
    changed = change("--cron", "0 0 29 2 *", "--overlap", "cancel", "--until", "2090-01-01T00:00Z")
    assert (changed["recurrence"], changed["overlap"]) == (custom, "cancel")
    assert change("--missed", "once")["ends_at"] is not None
    assert change("--until", "none")["ends_at"] is None
    assert change("--on-demand")["next_run_at"] is None
    other = tmp_path / "other.yaml"
    other.write_text("name: other\ncommand: env\n")
    assert change("--file", str(other))["name"] == "other"
    assert cli("schedule", "set", made["id"]).code == 2


def test_running_pausing_and_resuming(cli: Cli, file: str) -> None:
    cli.ok("schedule", "add", file, "--on-demand")
    assert "on demand" in cli.ok("schedule", "ls").text
    ended = cli.ok("schedule", "run", "nightly", "--follow")
    assert "hello" in ended.text
    job = cli.ok("schedule", "run", "nightly", "--wait", "--json").json
    assert job["state"] == "Succeeded"
    text = cli.ok("schedule", "runs", "nightly").text
    assert text.count("started") == 2
    assert job["id"] in text
    cli.ok("schedule", "set", "nightly", "--every", "month")
    assert cli.ok("schedule", "pause", "nightly").text.startswith("Paused recurrence-")
    assert "  paused      until resumed\n" in cli.ok("schedule", "show", "nightly").text
    assert "next run: 2" in cli.ok("schedule", "resume", "nightly").text


@pytest.mark.parametrize(
    ("recurrence", "kept"),
    [
        ({"type": "custom", "cron": "*/5 * * * *"}, {"kind": "custom", "cron": "*/5 * * * *", "timezone": ""}),
        ({"type": "on-demand"}, {"kind": "inactive", "cron": None, "timezone": ""}),
        ({"type": "weekly", "cron": ""}, {"kind": "weekly", "cron": "", "timezone": ""}),
    ],
)
def test_a_file_of_primehub_says_itself_when(cli: Cli, tmp_path: Path, recurrence: object, kept: object) -> None:
    form = {"displayName": "form", "command": "env", "image": "host", "instanceType": "cpu-1", "recurrence": recurrence}
    path = tmp_path / "form.json"
    path.write_text(json.dumps(form))
    assert cli.ok("schedule", "add", str(path), "--json").json["recurrence"] == kept
    daily = cli.ok("schedule", "add", str(path), "--every", "day", "--json").json
    assert daily["recurrence"]["kind"] == "daily"


FORM = "{displayName: form, command: env, image: host, instanceType: cpu-1}"


@pytest.mark.parametrize(
    "spec",
    [
        f"{{recurrence: {{type: custom, cron: '*/5 * * * *'}}, {FORM[1:]}",
        f"{{recurrence: {{type: custom, cron: '*/5 * * * *'}}, jobTemplate: {{metadata: {{}}, spec: {FORM}}}}}",
    ],
)
def test_a_schedule_as_primehub_kept_it(cli: Cli, tmp_path: Path, spec: str) -> None:
    path = tmp_path / "schedule.yaml"
    path.write_text(f"kind: PhSchedule\nmetadata: {{creationTimestamp: 2026-01-02T03:04:05Z}}\nspec: {spec}\n")
    made = cli.ok("schedule", "add", str(path), "--json").json
    assert (made["name"], made["recurrence"]["cron"]) == ("form", "*/5 * * * *")
    assert "is only supported for schedules, not for jobs" in cli("submit", str(path)).err


def test_a_job_as_primehub_kept_it(cli: Cli, tmp_path: Path) -> None:
    path = tmp_path / "job.yaml"
    path.write_text(f"kind: PhJob\nspec: {FORM}\n")
    assert cli.ok("schedule", "add", str(path), "--every", "day", "--json").json["name"] == "form"
    assert cli.ok("submit", str(path), "--json").json["name"] == "form"


def test_previews(cli: Cli) -> None:
    text = cli.ok("schedule", "preview", "0 12 * * *", "--zone", "Asia/Taipei", "-n", "3").text
    assert len(re.findall(r"12:00 CST  in ", text)) == 3
    assert len(cli.ok("schedule", "preview", "--every", "week", "--json").json["times"]) == 5


def test_what_is_wrong_is_told(cli: Cli, file: str, tmp_path: Path) -> None:
    assert "hour: 25 is not between 0 and 23" in cli("schedule", "add", file, "--cron", "0 25 * * *").err
    assert "hour: 25 is not between 0 and 23" in cli("schedule", "preview", "0 25 * * *").err
    assert "Did you mean Europe/Berlin?" in cli("schedule", "preview", "* * * * *", "--zone", "Europe/Berln").err
    for wrong in (
        ("add", file),
        ("add", file, "--every", "day", "--on-demand"),
        ("add", file, "--every", "day", "--until", "soon"),
        ("add", file, "--every", "day", "--overlap", "never"),
        ("preview",),
    ):
        assert cli("schedule", *wrong).code == 2
    bad = tmp_path / "bad"
    bad.write_bytes(b"\xff\xfe")
    assert "is not UTF-8 text" in cli("schedule", "add", str(bad), "--every", "day").err
    for _ in range(2):
        cli.ok("schedule", "add", file, "--every", "day")
    assert "2 schedules are named nightly" in cli("schedule", "show", "nightly").err
