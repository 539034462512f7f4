"""`holdfast top`: what machines, jobs and tasks use."""

from __future__ import annotations

import pytest

from holdfast.api.metrics import GpuMetrics, JobUsage, TaskMetrics, TaskUsage
from holdfast.cli import output
from holdfast.cli.jobs.top_job import format_rate, render_job_page

from .cli_runner import Cli
from .terminals import at_terminal

GIB = 2**30
BUSY = "while :; do :; done"


def test_a_running_job_is_watched_until_ctrl_c(cli: Cli, place: dict[str, str]) -> None:
    job = cli.ok("submit", "--json", "--name", "busy", "--cpu", "0.5", "--memory", "64Mi", "--", BUSY).json["id"]
    with at_terminal("top", job, "--every", "0.5", env=place, columns=80) as terminal:
        terminal.until(b" %")  # once there are figures
        terminal.type(b"\x03")
        assert terminal.wait() == 0
    (task,) = cli.ok("top", job, "--json").json["tasks"]
    assert (task["task"], task["state"], task["memory_asked"]) == ("main-0", "Running", 64 * 2**20)
    assert task["metrics"]["cpu"] > 0
    assert 0 < task["metrics"]["memory"] <= 64 * 2**20
    everything = cli.ok("top", "--json").json
    assert everything["load"]["jobs"][job]["tasks"] == 1
    for command in (("top", "--once"), ("top", job, "--once")):
        with at_terminal(*command, env=place, columns=80) as terminal:
            assert terminal.wait() == 0
            lines = terminal.seen.decode().replace("\x1b[1m", "").replace("\x1b[0m", "").splitlines()
            assert any("main-0" in line or job in line for line in lines)
            assert max(map(len, lines)) <= 80
    shown = cli.ok("top").text
    assert "CPU NOW" in shown
    assert next(line for line in shown.splitlines() if job in line).count("%") == 1
    cli.ok("stop", "--wait", job)
    ended = cli.ok("top", job).text
    assert ended.splitlines() == [
        f"busy ({job}): Cancelled",
        "",
        f"No task of this job runs. To see why, run `holdfast why {job}`.",
    ]
    assert cli("top", "no-such-job").code != 0


def test_many_tasks_with_gpus_fit_on_a_narrow_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(output, "get_width", lambda: 80)
    gpus = tuple(GpuMetrics(index=n, percent=90 + n, memory=70 * GIB, memory_total=141 * GIB) for n in range(8))
    figures = TaskMetrics(
        at=0, cpu=12345, memory=987.6 * GIB, memory_limit=1024 * GIB, net_in=9.9e9, disk_read=1e7, gpus=gpus
    )
    tasks = [
        TaskUsage(task=f"worker-{n}", state="Running", cpu_asked=128, memory_asked=GIB, gpu_asked=8, metrics=figures)
        for n in range(30)
    ]
    waits = TaskUsage(task="late-0", state="Running", cpu_asked=1, memory_asked=GIB, gpu_asked=8)
    now = JobUsage(job="job-202603011200-abcdef", name="n" * 200, state="Running", tasks=(waits, *tasks), total=31)
    lines = output.render_to_string(render_job_page(now, 20)).splitlines()
    assert max(map(len, lines[1:])) <= 80
    assert lines[3].split()[:2] == ["late-0", "–"]
    assert "12345 %" in lines[4]
    assert "94 %" in lines[4]
    assert lines[-2:] == [
        "11 more tasks are not shown; raise --limit to show them.",
        "–: no metrics yet; the first sample comes a few seconds after a task starts.",
    ]
    off = JobUsage(job="j", name="n", state="Running", tasks=(waits,), total=1, measured=False)
    assert (
        output.render_to_string(render_job_page(off, 20))
        .splitlines()[-1]
        .startswith("Metrics are disabled on this server")
    )


def test_rates_are_short() -> None:
    assert [format_rate(each) for each in (0, 980, 1024 * 1.26, 34.4e6, 6e9)] == ["0", "980", "1.3K", "33M", "5.6G"]
