"""Batch scripts of Slurm on a real server: what they see, and what arrays do."""

from __future__ import annotations

import json
from pathlib import Path

from .cli_runner import Cli


def write_script(folder: Path, *lines: str) -> str:
    script = folder / "job.sh"
    script.write_text("\n".join(lines) + "\n")
    return str(script)


def read_variables(out: bytes) -> dict[str, str]:
    lines = [line for line in out.decode().splitlines() if line.startswith("SLURM")]
    return dict(line.split("=", 1) for line in lines)


def test_a_script_runs_with_the_variables_of_slurm(cli: Cli, tmp_path: Path) -> None:
    script = write_script(
        tmp_path,
        "#!/bin/bash",
        "#SBATCH --job-name=variables --cpus-per-task=1 --mem=64M --time=5",
        "#SBATCH --export=MODE=fast --partition=short",
        'cd "$SLURM_SUBMIT_DIR" && env && echo "mode $MODE" && false',
        'echo "still here"',  # a script continues after a failed command
    )
    result = cli.ok("submit", "--follow", script)
    seen = read_variables(result.out)
    job = cli.ok("ls", "--json", "--limit", "1").json["items"][0]
    assert (job["name"], job["state"]) == ("variables", "Succeeded")
    assert seen["SLURM_JOB_ID"] == job["id"]
    assert seen["SLURM_JOB_NAME"] == "variables"
    assert (seen["SLURM_CPUS_PER_TASK"], seen["SLURM_NTASKS"], seen["SLURM_MEM_PER_NODE"]) == ("1", "1", "64")
    assert seen["SLURM_JOB_PARTITION"] == "short"
    assert seen["SLURM_JOB_NODELIST"] == seen["SLURMD_NODENAME"] != ""
    assert "SLURM_ARRAY_TASK_ID" not in seen
    assert b"mode fast\n" in result.out
    assert b"still here\n" in result.out


def test_each_task_of_an_array_has_its_index_and_a_failed_one_stops_no_other(cli: Cli, tmp_path: Path) -> None:
    script = write_script(
        tmp_path,
        "#!/bin/bash",
        "#SBATCH --job-name=array --array=2-6:2,9 --mem=32M --time=10",
        "env",
        '[ "$SLURM_ARRAY_TASK_ID" != 2 ]',
    )
    sent = cli("submit", "--wait", "--json", script)
    job = sent.json["id"]
    assert (sent.code, sent.json["state"]) == (1, "Failed")
    tasks = [read_variables(cli.ok("logs", job, f"main-{index}", "--stdout").out) for index in range(4)]
    assert [task["SLURM_ARRAY_TASK_ID"] for task in tasks] == ["2", "4", "6", "9"]
    assert {task["SLURM_ARRAY_JOB_ID"] for task in tasks} == {job}
    assert [task["SLURM_JOB_ID"] for task in tasks] == [f"{job}_{index}" for index in (2, 4, 6, 9)]
    assert {(task["SLURM_ARRAY_TASK_MIN"], task["SLURM_ARRAY_TASK_MAX"]) for task in tasks} == {("2", "9")}
    assert {task["SLURM_ARRAY_TASK_COUNT"] for task in tasks} == {"4"}
    shown = cli.ok("show", job, "--json").json
    assert [task["state"] for task in shown["tasks"]] == ["Failed", "Succeeded", "Succeeded", "Succeeded"]


def test_the_interpreter_of_the_first_line_runs_the_script(cli: Cli, tmp_path: Path) -> None:
    script = write_script(
        tmp_path,
        "#!/usr/bin/env python3",
        "#SBATCH --job-name=python",
        "import os, sys",
        "print('python', os.environ['SLURM_JOB_NAME'])",
        "sys.exit(7)",
    )
    result = cli("submit", "--follow", script)
    assert (result.code, result.out) == (7, b"python python\n")


def test_a_signal_arrives_before_the_time_limit(cli: Cli, tmp_path: Path) -> None:
    script = write_script(
        tmp_path,
        "#!/bin/bash",
        "#SBATCH --time=1 --signal=B:USR1@55",
        "trap 'echo checkpoint; exit 0' USR1",
        "sleep 300 & wait",
    )
    assert cli.ok("submit", "--follow", script).out == b"checkpoint\n"


def test_the_script_reads_the_file_of_input(cli: Cli, tmp_path: Path) -> None:
    script = write_script(tmp_path, "#!/bin/sh", "#SBATCH --input=/proc/sys/kernel/ostype", "cat")
    assert cli.ok("submit", "--follow", script).out == b"Linux\n"


def test_warnings_and_mistakes_are_shown(cli: Cli, tmp_path: Path) -> None:
    good = write_script(tmp_path, "#!/bin/sh", "#SBATCH --job-name=good -o out.txt -p long -A lab", "srun true")
    warned = cli.ok("plan", good).text
    assert "--output: has no effect here" in warned
    assert "options of Slurm have no effect on the engine embedded: partition, account" in warned
    assert "srun: is a command of Slurm" in warned
    bad = write_script(tmp_path, "#!/bin/sh", "#SBATCH --nodes=2", "#SBATCH --dependency=afterok:1 --tiem=5", "true")
    refused = cli("submit", bad, "--json")
    assert refused.code != 0
    problems = json.loads(refused.err)["error"]["problems"]
    assert [(problem["field"], problem["line"]) for problem in problems] == [
        ("--nodes", 2), ("--dependency", 3), ("--tiem", 3),
    ]  # fmt: skip


def test_a_script_without_options_needs_its_format(cli: Cli, tmp_path: Path) -> None:
    script = write_script(tmp_path, "#!/bin/sh", "echo plain")
    assert "--dialect sbatch" in cli("submit", script).err
    assert cli.ok("submit", "--follow", "--dialect", "sbatch", script).out == b"plain\n"


def test_a_script_is_cloned_as_it_was_submitted(cli: Cli, tmp_path: Path) -> None:
    script = write_script(tmp_path, "#!/bin/bash", "#SBATCH -J copy -a 3-4", 'echo "index $SLURM_ARRAY_TASK_ID"')
    job = cli.ok("submit", "--wait", "--json", script).json["id"]
    assert cli.ok("clone", job).out == Path(script).read_bytes()


def test_a_script_without_a_name_has_that_of_its_file(cli: Cli, tmp_path: Path) -> None:
    script = write_script(tmp_path, "#!/bin/bash", "#SBATCH --time=1", "true")
    job = cli.ok("submit", "--wait", "--json", script).json
    assert job["name"] == "job.sh"
    copy = cli.ok("clone", job["id"]).out
    assert copy.startswith(b'#!/bin/bash\n#SBATCH --job-name="job.sh"\n#SBATCH --time=1\n')
    assert cli.ok("submit", "--wait", "--json", "-", stdin=copy).json["name"] == "job.sh"
    assert cli.ok("submit", "--wait", "--json", "-", stdin=Path(script).read_bytes()).json["name"] == "sbatch"


def test_a_scheduled_script_without_a_name_has_that_of_its_file(cli: Cli, tmp_path: Path) -> None:
    script = write_script(tmp_path, "#!/bin/bash", "#SBATCH --time=1", "true")
    made = cli.ok("schedule", "add", script, "--on-demand", "--json").json
    assert (made["name"], made["job"]["dialect"]) == ("job.sh", "sbatch")
    other = tmp_path / "other.sh"
    other.write_text("#!/bin/bash\ntrue\n")  # without options, its format must be given
    changed = cli.ok("schedule", "set", made["id"], "--file", str(other), "--dialect", "sbatch", "--json").json
    assert changed["name"] == "other.sh"
    cli.ok("schedule", "rm", made["id"], "--yes")


def test_a_script_is_simulated(cli: Cli, tmp_path: Path) -> None:
    script = write_script(tmp_path, "#!/bin/bash", "#SBATCH -J copy -a 3-4", 'echo "index $SLURM_ARRAY_TASK_ID"')
    assert "index 3" in cli.ok("simulate", script).text
