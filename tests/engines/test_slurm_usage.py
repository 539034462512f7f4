"""The usage of tasks in Slurm."""

from __future__ import annotations

import subprocess
from collections.abc import Mapping
from pathlib import Path

import pytest

import holdfast
from holdfast.core.metrics.samples import Reading
from holdfast.engines.slurm.task_end import EndKind, EndRecord, build_end_observation, parse_end_record
from holdfast.engines.slurm.usage import parse_usage

LINE = "1000.25 250 3 4096000 1024000 2048000\n"


def test_the_memory_of_a_cgroup_is_preferred_to_that_of_the_processes() -> None:
    read = parse_usage(LINE)
    assert read == Reading(at=1000.25, cpu=2.5, processes=3, memory=1024000, memory_limit=2048000)
    without = parse_usage("1000.25 250 3 4096000 - -\n")
    assert without == Reading(at=1000.25, cpu=2.5, processes=3, memory=4096000)
    unlimited = parse_usage("1000.25 250 3 4096000 1024000 9223372036854771712\n")
    assert unlimited is not None
    assert unlimited.memory_limit is None


@pytest.mark.parametrize("text", ["", "1000.25 250", "x 250 3 4096000 - -\n", "1000.25 250 -1 4096000 - -\n"])
def test_a_damaged_report_is_no_reading(text: str) -> None:
    assert parse_usage(text) is None


def test_the_last_usage_comes_with_the_end() -> None:
    record = parse_end_record(EndRecord(kind=EndKind.EXITED, code=3, usage=LINE).to_json().encode())
    assert record is not None
    assert build_end_observation("a", record).used == parse_usage(LINE)


def test_the_record_of_an_older_server_has_no_usage() -> None:
    text = EndRecord(kind=EndKind.EXITED).to_json().replace(',"usage":""', "")
    assert "usage" not in text
    record = parse_end_record(text.encode())
    assert record is not None
    assert build_end_observation("a", record).used is None


# --- the cgroups of a node --------------------------------------------------------------------------------------------

PROGRAM = (Path(holdfast.__file__).parent / "runtime" / "slurm_task.sh").read_text()
V1_JOB = "slurm_n1/uid_1000/job_7"
V2_STEP = "system.slice/slurmstepd.scope/job_7/step_batch"
V2_STAT = "anon 100\nfile 90\ninactive_file 30\nactive_file 20\nunevictable 5\n"


def measure(tmp_path: Path, groups: str, files: Mapping[str, str]) -> str:
    """Return memory, limit and kills, as the node's program reads them from these cgroups."""
    for name, text in files.items():
        path = tmp_path / "cgroup" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    (tmp_path / "groups").write_text(groups)
    (tmp_path / "report").mkdir()
    functions = PROGRAM.partition("\n_holdfast_folder=")[0]
    functions = functions.replace("/proc/self/cgroup", f"{tmp_path}/groups").replace(
        "/sys/fs/cgroup", f"{tmp_path}/cgroup"
    )
    calls = "find_memory_group; read_group_memory; record_memory_kills; echo $_holdfast_memory $_holdfast_limit"
    script = f"{functions}\n_holdfast_folder={tmp_path}\n{calls}"
    shown = subprocess.run(["/bin/sh", "-c", script], capture_output=True, text=True, check=True, timeout=60).stdout
    kills = tmp_path / "report" / "oom"
    return f"{shown.strip()} {kills.read_text().strip() if kills.exists() else '-'}"


@pytest.mark.parametrize("scope", ["slurmstepd.scope", "n1_slurmstepd.scope"])
def test_cgroups_of_version_2_limit_the_users_part_of_a_step(tmp_path: Path, scope: str) -> None:
    step = V2_STEP.replace("slurmstepd.scope", scope)
    files = {
        f"{step}/user/task_0/memory.max": "max\n",
        f"{step}/user/task_0/memory.events": "low 0\noom 1\noom_kill 2\noom_group_kill 0\n",
        f"{step}/user/memory.max": "67108864\n",
        f"{step}/user/memory.current": "1000\n",
        f"{step}/user/memory.stat": V2_STAT,
        f"{step}/memory.max": "max\n",
        f"{step}/memory.current": "9000\n",  # with slurmstepd
        f"{step}/../memory.max": "134217728\n",
        f"{step}/../../memory.max": "1\n",  # not of the job
    }
    (tmp_path / "cgroup" / step).mkdir(parents=True)
    assert measure(tmp_path, f"0::/{step}/user/task_0\n", files) == "950 67108864 2"


def test_the_limit_of_the_job_holds_where_the_step_has_none(tmp_path: Path) -> None:
    files = {
        f"{V2_STEP}/user/memory.max": "max\n",
        f"{V2_STEP}/user/memory.current": "1000\n",
        f"{V2_STEP}/user/memory.stat": V2_STAT,
        "system.slice/slurmstepd.scope/job_7/memory.max": "5000\n",
    }
    assert measure(tmp_path, f"0::/{V2_STEP}/user/task_special\n", files) == "950 5000 -"


def test_cgroups_of_version_1_count_the_groups_below(tmp_path: Path) -> None:
    step = f"memory/{V1_JOB}/step_batch"
    files = {
        f"{step}/task_0/memory.limit_in_bytes": "9223372036854771712\n",
        f"{step}/task_0/memory.oom_control": "oom_kill_disable 0\nunder_oom 0\noom_kill 0\n",
        f"{step}/memory.limit_in_bytes": "67108864\n",
        f"{step}/memory.usage_in_bytes": "1000\n",
        f"{step}/memory.stat": "inactive_file 1\nactive_file 2\ntotal_inactive_file 30\ntotal_active_file 20\n",
        f"memory/{V1_JOB}/memory.limit_in_bytes": "134217728\n",
    }
    groups = f"8:pids:/\n4:memory:/{V1_JOB}/step_batch/task_0\n0::/{V2_STEP}/user/task_0\n"
    assert measure(tmp_path, groups, files) == "950 67108864 0"


@pytest.mark.parametrize(
    "groups", ["0::/\n", "0::/user.slice/session-1.scope\n", f"0::/../../{V2_STEP}/user/task_0\n", ""]
)
def test_without_a_cgroup_of_the_job_nothing_is_known(tmp_path: Path, groups: str) -> None:
    assert measure(tmp_path, groups, {"memory.max": "7\n"}) == "- - -"
