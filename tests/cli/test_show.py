"""One job on one page."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from holdfast.api.jobs import Retries, StopRequest, Task
from holdfast.cli.jobs.show import show_job
from holdfast.sdk import JobDetail, JobState

from .cli_runner import Cli, run_on_terminal, run_program


def detail(**more: Any) -> JobDetail:
    at = datetime(2026, 1, 1, tzinfo=UTC)
    return JobDetail(id="job-1", name="train", state=JobState("Running"), submitted_at=at, **more)


@pytest.mark.parametrize(
    ("own", "platform", "said"),
    [
        (0, 4, "3, after 4 platform retries"),
        (1, 0, "3, after 1 retry"),
        (2, 1, "3, after 2 retries and 1 platform retry"),
        (0, 0, "3"),
    ],
)
def test_retries(own: int, platform: int, said: str, capsys: pytest.CaptureFixture[str]) -> None:
    show_job(detail(attempt=3, retries=Retries(user=own, platform=platform)), ())
    assert f"  attempt     {said}\n" in capsys.readouterr().out


def test_the_machine_of_a_task_is_shown_instead_of_its_cluster(capsys: pytest.CaptureFixture[str]) -> None:
    tasks = (
        Task(task="main-0", state="Running", node="cluster", host="rack-7"),
        Task(task="main-1", state="Preparing", node="cluster"),
    )
    show_job(detail(tasks=tasks), ())
    first, second = (line for line in capsys.readouterr().out.splitlines() if line.startswith("main-"))
    assert "rack-7" in first
    assert "cluster" not in first
    assert "cluster" in second


def test_the_engine_can_be_chosen_for_a_file_and_is_shown(cli: Cli, tmp_path: Path) -> None:
    file = tmp_path / "job.yaml"
    file.write_text("name: chosen\nengine: other\ncommand: 'true'\n")
    assert "The engine other is not configured" in cli("submit", str(file)).err
    assert "The engine docker is not configured" in cli("plan", "--engine", "docker", str(file)).err
    assert "It can never run" not in cli.ok("plan", "--engine", "embedded", str(file)).text
    sent = cli.ok("submit", "--wait", "--engine", "embedded", "--json", str(file)).json
    assert "  engine      embedded\n" in cli.ok("show", sent["id"]).text


def test_a_message_that_repeats_the_state_is_not_a_reason(capsys: pytest.CaptureFixture[str]) -> None:
    show_job(detail(message="Running"), ())
    assert "reason" not in capsys.readouterr().out
    show_job(detail(message="Running again after a failure"), ())
    assert "  reason      Running again after a failure\n" in capsys.readouterr().out


def test_what_was_warned_of_stays_to_be_seen(cli: Cli) -> None:
    sent = cli.ok("submit", "--image", "nowhere", "--json", "--", "true").json
    assert f"  warning     {sent['warnings'][0]}\n" in cli.ok("show", sent["id"]).text


def test_many_warnings_are_cut(capsys: pytest.CaptureFixture[str]) -> None:
    show_job(detail(), (), [f"number {n}" for n in range(8)])
    out = capsys.readouterr().out
    assert "  warning     number 4\n              and 3 more: holdfast events job-1\n" in out


def test_why_nobody_stopped_it_by_hand(capsys: pytest.CaptureFixture[str]) -> None:
    show_job(
        detail(stop=StopRequest(actor="holdfast", at=datetime(2026, 1, 1, tzinfo=UTC), why="another took its place")),
        (),
    )
    assert re.search(r"stopped by +holdfast at .*: another took its place\n", capsys.readouterr().out)


def test_what_to_do_next(place: dict[str, str]) -> None:
    def sent(*options: str) -> str:
        return run_program("submit", "--cpu", "0.1", "--memory", "64Mi", *options, env=place).text.strip()

    def seen(*words: str) -> str:
        return run_on_terminal(*words, env=place, columns=250).text

    failed, kept = sent("--name", "broken", "--", "exit 3"), sent("--hold", "--name", "kept", "--", "exit 3")
    running = sent("--name", "runs", "--", "sleep 1000")
    for job in (failed, kept):
        assert run_program("wait", job, env=place).code == 3
    run_program("stop", "--wait", kept, env=place)
    for way in ("show", "wait"):
        assert f"holdfast rerun {failed} --hold" in seen(way, failed)
        assert f"holdfast rerun {kept}" in (text := seen(way, kept))
        assert "--hold" not in text  # it was
    while run_program("show", "--json", running, env=place).json["state"] != "Running":
        pass
    assert f"holdfast ssh {running}" in seen("show", running)
    run_program("stop", running, env=place)
