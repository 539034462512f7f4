"""`holdfast why`, against a real server that really runs jobs, and the lines it makes of answers."""

from __future__ import annotations

import os
import time
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from holdfast.api.resources import ResourceAmount
from holdfast.api.why import (
    Blocker,
    CodeFrame,
    Efficiency,
    Estimate,
    Evidence,
    Failure,
    Finding,
    JobAhead,
    JobExplanation,
    ResourceHolder,
    ResourceUsage,
    WaitExplanation,
)
from holdfast.cli.jobs import why as why_command
from holdfast.cli.quantities import utc_now

from .cli_runner import Cli, run_on_terminal

SMALL = ("--cpu", "0.1", "--memory", "64Mi")
GIB = 1 << 30


def test_why_a_job_waits_and_what_lets_it_start(cli: Cli, place: dict[str, str]) -> None:
    cli.ok("group", "add", "tight", "--cpu", "0.15")
    submit = ("submit", "--json", "--group", "tight", *SMALL)
    crash = cli(*submit, "--hold", "--wait", "--name", "crash", "--", "exit 3").json["id"]
    job = cli.ok(*submit, "--name", "patient", "--", "echo it runs").json["id"]
    lines = cli.ok("why").text.splitlines()  # the newest of mine
    assert lines[0] == f"patient ({job}) is waiting: The quota of group tight is 0.15 cores, 0.1 in use, 0.1 requested."
    assert lines[1].startswith(f"  in use by  crash ({crash}) of admin: 0.1 cores, for ")
    assert lines[1].endswith(f", holdfast release {crash}")
    release = next(line for line in lines if f"`holdfast release {crash}`" in line)
    assert release.startswith(
        f"  hint       It would start now if job crash ({crash}) of user admin, which failed and is on hold until"
    )
    raised = "raised the quota of group tight to 0.2 cores: `holdfast group set tight --cpu 0.2`."
    assert any(line.endswith(raised) for line in lines)
    seen = run_on_terminal("why", job, env=place)
    assert f"next: holdfast clone {job}" in seen.text
    assert f"next: holdfast why {job}" in run_on_terminal("show", job, env=place).text
    cli.ok("release", crash)
    assert cli("wait", job).code == 0
    assert cli.ok("why", job).text.startswith(f"patient ({job}) succeeded")


def test_why_a_job_failed(cli: Cli, place: dict[str, str]) -> None:
    job = cli("submit", "--wait", "--json", *SMALL, "--name", "broken", "--", "no-such-command --now").json["id"]
    found = cli.ok("why", job, "--json").json
    assert (found["job"], found["state"], found["verdict"], found["waiting"]) == (job, "Failed", "failed", None)
    text = cli.ok("why", "broken").text
    assert text.startswith(f"broken ({job}) failed")
    assert found["failure"]["title"] in text.splitlines()[0]
    assert "no-such-command" in text
    seen = run_on_terminal("why", job, env=place).text
    assert "\x1b[1;31m" in seen
    assert f"next: holdfast logs {job}" in seen
    shown = cli.ok("show", job).text
    assert f"  reason      main-0: {found['failure']['title']}\n" in shown
    if os.geteuid() == 0:  # without control groups nothing measures what ends at once
        assert "  used        " in shown
    kept = {name: found["failure"][name] for name in ("fault", "title", "task")}
    assert cli.ok("show", job, "--json").json["failure"] == kept
    fine = cli("submit", "--wait", "--json", *SMALL, "--", "true").json["id"]
    assert cli.ok("show", fine, "--json").json["failure"] is None


def test_what_the_next_run_of_a_schedule_waits_for(cli: Cli, tmp_path: Path) -> None:
    (tmp_path / "job.yaml").write_text("name: nightly\ncommand: echo hi\n")
    id = cli.ok("schedule", "add", str(tmp_path / "job.yaml"), "--every", "day", "--json").json["id"]
    text = cli.ok("why", id).text
    assert text.startswith(f"{id} waits for its next run.\n  starts     ")
    assert cli.ok("why", id, "--json").json["blockers"] == []
    cli.ok("schedule", "rm", id, "--yes")


def test_a_job_that_is_not_there(cli: Cli) -> None:
    assert cli("why", "no-such-job").code == 1


# -- the lines


def lines_of(found: JobExplanation) -> list[str]:
    return [f"{label}: {said}" for label, said in why_command._iter_explanation_lines(found)]


def test_lines_of_a_job_that_waits() -> None:
    now = utc_now()
    holder = ResourceHolder(
        job="job-2",
        name="other",
        user="bob",
        has=ResourceAmount(cpu=3, memory=GIB, gpu=2),
        since=now - timedelta(hours=1),
    )
    lacking = Blocker(
        kind="machines",
        text="Too little.",
        lacks=ResourceAmount(cpu=1),
        holders=(
            holder,
            ResourceHolder(has=ResourceAmount(gpu=1)),
            ResourceHolder(user="eve", has=ResourceAmount(cpu=8), outside="slurm", job_count=3),
        ),
    )
    wait = WaitExplanation(
        blockers=(lacking, replace(lacking, text="Quota."), Blocker(kind="queue", text="Others.")),
        ahead=(
            JobAhead(job="job-3", name="first", user="ann", group="blue", asks=ResourceAmount(cpu=4)),
            JobAhead(asks=ResourceAmount(memory=GIB)),
        ),
        ahead_count=5,
        helps=("Ask for less.", "Wait."),
        estimate=Estimate(basis="It cannot be told."),
    )
    found = JobExplanation(job="job-1", name="train", state="Pending", verdict="waiting", waiting=wait)
    assert why_command._summarize_verdict(found) == ("train (job-1) is waiting: Too little.", "yellow")
    assert lines_of(found) == [
        "in use by: other (job-2) of bob: 3 cores, 1 GiB, 2 GPUs, for 1h00m, no time limit",
        "in use by: a job of another group: 1 GPU, no time limit",
        "in use by: 3 jobs of eve in slurm: 8 cores, no time limit",
        "waiting: Quota.",
        "in use by: the same jobs",
        "waiting: Others.",
        "ahead: first (job-3) of ann in group blue: 4 cores",
        "ahead: a job of another group: 1 GiB",
        "ahead: and 3 more jobs",
        "hint: Ask for less.",
        "hint: Wait.",
        "starts: It cannot be told.",
    ]
    soon = replace(wait, estimate=Estimate(at=now + timedelta(hours=2, minutes=1), basis="By limits."))
    assert ", in 2h00m. By limits." in lines_of(replace(found, waiting=soon))[-1]
    past = replace(wait, estimate=Estimate(at=now, basis="By limits."))
    assert lines_of(replace(found, waiting=past))[-1] == "starts: now. By limits."
    begins = JobExplanation(job="job-1", name="train", state="Pending", verdict="waiting", waiting=WaitExplanation())
    assert why_command._summarize_verdict(begins)[0] == "train (job-1) is about to start."


def test_all_times_are_on_the_readers_clock(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TZ", "Asia/Taipei")
    time.tzset()
    try:
        at = datetime(2099, 3, 1, 12, 0, tzinfo=UTC)
        said = "It would start when that has ended, at 2099-03-01 12:00:00 UTC at the latest."
        wait = WaitExplanation(
            blockers=(Blocker(kind="machines", text="No room.", holders=(ResourceHolder(job="job-2", until=at),)),),
            helps=(said,),
            estimate=Estimate(at=at, basis=said),
        )
        lines = lines_of(JobExplanation(job="job-1", name="train", state="Pending", verdict="waiting", waiting=wait))
    finally:
        monkeypatch.undo()
        time.tzset()
    assert all("2099-03-01 20:00:00 CST" in line for line in lines)
    assert not any("UTC" in line for line in lines)


def test_a_debugger_that_waits_comes_first() -> None:
    found = JobExplanation(
        job="job-1", name="train", state="Running", verdict="debugger", debugger="train.py:42 in worker-0"
    )
    assert (
        why_command._summarize_verdict(found)[0]
        == "train (job-1) is running; a debugger waits at train.py:42 in worker-0."
    )
    assert why_command._suggest_commands(found)[0] == "holdfast debug job-1"


FAILURE = Failure(
    fault="python-exception",
    title="ValueError: no",
    explanation="It raised an exception.",
    confidence="likely",
    evidence=(
        Evidence(kind="exit", text="Exit code 1"),
        Evidence(kind="log", text="Traceback\nValueError: no", task="w-0"),
    ),
    remedies=("Mend it.",),
    task="w-0",
    attempt=2,
    followers=("w-1", "w-2"),
    frame=CodeFrame(file="train.py", line=7, function="main", code="    raise ValueError"),
)


def test_lines_of_a_job_that_failed() -> None:
    found = JobExplanation(job="job-1", name="train", state="Failed", verdict="failed", failure=FAILURE)
    assert why_command._summarize_verdict(found) == ("train (job-1) failed: ValueError: no (likely)", "bold red")
    assert lines_of(found) == [
        "cause: It raised an exception.",
        "where: train.py:7 in main: raise ValueError",
        "task: w-0, in attempt 2",
        "evidence: Exit code 1",
        "log: | Traceback",
        "log: | ValueError: no",
        "secondary: w-1, w-2 failed because of it",
        "hint: Mend it.",
    ]
    held = replace(found, state="Held")
    assert why_command._summarize_verdict(held)[0] == "train (job-1) failed and is held: ValueError: no (likely)"
    assert why_command._suggest_commands(held)[0] == "holdfast ssh job-1 w-0"
    unknown = replace(found, failure=replace(FAILURE, fault="unknown", title="Exit code 1"))
    assert why_command._summarize_verdict(unknown)[0] == "train (job-1) failed; cause unknown: Exit code 1"


SLOW = Finding(kind="one-core", text="1 of 8 cores is busy.", remedy="Use more.", tasks=("w-0",))
USED = ResourceUsage(
    tasks=1, seconds=60, cpu_asked=8, cpu_used=1.02, memory_asked=4 * GIB, memory_peak=GIB, gpu_asked=1, gpu_used=0.5
)


def test_lines_of_a_job_that_is_slow() -> None:
    efficiency = Efficiency(whole=USED, advice=("1 GiB would do.",))
    found = JobExplanation(
        job="job-1", name="train", state="Running", verdict="slow", slow=(SLOW, SLOW), efficiency=efficiency
    )
    assert why_command._summarize_verdict(found) == ("train (job-1) is running: 1 of 8 cores is busy.", "yellow")
    assert lines_of(found) == [
        "hint: Use more.",
        "slow: 1 of 8 cores is busy. (w-0)",
        "hint: Use more.",
        "used: 1 of 8 cores on average",
        "used: 1 GiB of 4 GiB at peak",
        "used: 0.5 of 1 GPU on average",
        "advice: 1 GiB would do.",
    ]
    assert why_command._suggest_commands(found)[0] == "holdfast stack job-1"


@pytest.mark.parametrize(
    ("state", "said"),
    [
        ("Running", "is running; no problems found."),
        ("Succeeded", "succeeded; no problems found."),
        ("Preparing", "is preparing; no problems found."),
        ("Cancelled", "was cancelled: Cancelled by ann"),
    ],
)
def test_a_job_of_which_there_is_nothing_to_say(state: str, said: str) -> None:
    found = JobExplanation(job="job-1", name="train", state=state, message="Cancelled by ann")
    assert why_command._summarize_verdict(found)[0] == f"train (job-1) {said}"
    assert lines_of(found) == []
