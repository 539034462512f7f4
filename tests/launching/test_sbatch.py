"""The entry of a batch script, run by real shells."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import pytest

from holdfast.core.job import Job
from holdfast.jobspec import parse_job

from .scene import launch_of, placed

SHELLS = [shell for shell in ("dash", "bash", "busybox") if shutil.which(shell)]
OUTSIDE = {"PATH": "/usr/bin:/bin"}


def script(*lines: str) -> Job:
    return parse_job("\n".join(("#!/bin/sh", *lines, ""))).job


def run(
    job: Job, folder: Path, *, number: int = 0, shell: str = "bash", **env: str
) -> subprocess.CompletedProcess[str]:
    launch = launch_of(job, number)
    (folder / "entry").write_text(launch.entry)
    (folder / "script").write_text(launch.script)
    command = [shell, *(["sh"] if shell == "busybox" else []), "entry", "script"]
    outside = {**OUTSIDE, **launch.env, **env}
    with (folder / "stderr").open("w") as stderr:  # not a pipe, which a timer would keep open
        process = subprocess.Popen(
            command, cwd=folder, env=outside, stdout=subprocess.PIPE, stderr=stderr, text=True, start_new_session=True
        )
    try:
        out, _ = process.communicate(timeout=60)
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)  # timers outlive the script where no sandbox ends them
    return subprocess.CompletedProcess(command, process.returncode, out, (folder / "stderr").read_text())


@pytest.mark.parametrize("shell", SHELLS)
def test_every_shell_runs_the_entry(tmp_path: Path, shell: str) -> None:
    (tmp_path / "in put.txt").write_text("from a file\n")
    job = script(
        "#SBATCH -J 'it'\\''s \"quoted\" $HOME' --array=3,8 --input='in put.txt' -c 2",
        'echo "$SLURM_JOB_NAME|$SLURM_JOB_ID|$SLURM_CPUS_PER_TASK|$SLURM_SUBMIT_DIR"',
        "cat",
    )
    done = run(job, tmp_path, number=1, shell=shell)
    assert done.stdout == f'it\'s "quoted" $HOME|j1_8|2|{tmp_path}\nfrom a file\n'
    assert (done.stderr, done.returncode) == ("", 0)


def test_variables_of_slurm_itself_win_but_for_those_of_the_array(tmp_path: Path) -> None:
    job = script("#SBATCH --array=4 -n 2", 'echo "$SLURM_JOB_ID $SLURM_NTASKS $SLURM_ARRAY_TASK_ID"')
    assert run(job, tmp_path, SLURM_JOB_ID="77", SLURM_NTASKS="1").stdout == "77 1 4\n"


@pytest.mark.parametrize("shell", SHELLS)
def test_what_slurm_does_not_set_is_added(tmp_path: Path, shell: str) -> None:
    job = script(
        "#SBATCH -J 'my job' -c 2 --mem=64M",
        'echo "$SLURM_JOB_NAME|$SLURM_CPUS_PER_TASK|$SLURM_MEM_PER_NODE|$SLURM_SUBMIT_DIR|${HYDRA_BOOTSTRAP-slurm}"',
    )
    inside = {"SLURM_JOB_ID": "77", "SLURM_JOB_NAME": "hf-1", "SLURM_SUBMIT_DIR": "/"}
    done = run(job, tmp_path, shell=shell, **inside)
    assert (done.stdout, done.stderr) == (f"my job|2|64|{tmp_path}|slurm\n", "")


def test_each_task_of_an_array_has_a_time_limit_for_its_engine() -> None:
    assert launch_of(script("#SBATCH --array=1-2 --time=3", "exit 0")).time_limit == 180
    assert launch_of(script("#SBATCH --array=1-2", "exit 0")).time_limit is None


@pytest.mark.parametrize("shell", SHELLS)
def test_a_task_of_an_array_ends_at_its_time_limit(tmp_path: Path, shell: str) -> None:
    job = script("#SBATCH --array=1-2 --time=1", "exec sleep 50")
    extras = {"sbatch": {**job.extras["sbatch"], "task_time_limit": 1}}
    done = run(replace(job, extras=extras), tmp_path, shell=shell)
    assert done.returncode == -signal.SIGTERM
    assert done.stderr == "[holdfast] The time limit of this task has expired.\n"


def test_a_script_that_ends_before_its_timers_waits_for_none(tmp_path: Path) -> None:
    job = script("#SBATCH --array=1 --time=1 --signal=B:USR1@50", "wait", "echo done")
    assert run(job, tmp_path).stdout == "done\n"  # a timer with this pipe would keep it open


@pytest.mark.parametrize("shell", SHELLS)
def test_a_signal_is_sent_to_the_script_only(tmp_path: Path, shell: str) -> None:
    job = script(
        "#SBATCH --time=2 --signal=B:USR1@117",
        "trap 'echo caught; kill $child; exit 3' USR1",
        "sleep 50 &",
        "child=$!",
        "wait",
    )
    done = run(job, tmp_path, shell=shell)
    assert (done.stdout, done.returncode) == ("caught\n", 3)


@pytest.mark.parametrize(("array", "step"), [("1-9:3", "3"), ("1-4", "1"), ("1,5,9", "1"), ("0-8:2,20", "1")])
def test_the_step_of_an_array_is_that_of_its_range(tmp_path: Path, array: str, step: str) -> None:
    assert run(script(f"#SBATCH -a {array}", "echo $SLURM_ARRAY_TASK_STEP"), tmp_path).stdout == f"{step}\n"


def test_a_retry_counts_as_a_restart(tmp_path: Path) -> None:
    job = script("#SBATCH -J again", "echo ${SLURM_RESTART_COUNT:-first}")
    assert run(job, tmp_path).stdout == "first\n"
    snapshot = replace(placed(job), attempt=2)
    assert "export SLURM_RESTART_COUNT=2\n" in launch_of(snapshot).entry


def test_an_interpreter_that_is_missing_is_named(tmp_path: Path) -> None:
    job = parse_job("#!/opt/none/bin/tcsh -f\n#SBATCH -J shell\necho\n").job
    done = run(job, tmp_path)
    assert done.returncode == 127
    assert "/opt/none/bin/tcsh" in done.stderr
