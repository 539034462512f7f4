"""What a probe job prints, and what that means."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from holdfast.engines.slurm.jobs import parse_partitions
from holdfast.engines.slurm.probe.probe_result import (
    NodeFacts,
    ProbeResult,
    ProbeState,
    Problem,
    build_conditions,
    compute_clock_difference,
    describe_result,
    judge_facts,
    parse_facts,
    parse_results,
    serialize_results,
)
from holdfast.engines.slurm.probe.setup_checks import check_setup

OUTPUT = """node n1
time 1700000000
machine x86_64
uid 1001
uid-of-user 1001
folder 0
tool bash
tool bwrap
tool something-else
python 3.11
end 0
"""
FACTS = NodeFacts(
    node="n1", machine="x86_64", uid=1001, named_uid=1001, python="3.11", tools=frozenset({"bash", "bwrap"}),
    time=1700000000,
)  # fmt: skip
PASSED = ProbeResult(partition="main", state=ProbeState.PASSED, facts=FACTS, at=5.0)


def test_facts_are_read() -> None:
    assert parse_facts(OUTPUT) == FACTS


@pytest.mark.parametrize("text", ["", "node n1\n", OUTPUT.replace("end 0\n", ""), OUTPUT.replace("node n1\n", "")])
def test_incomplete_output_says_nothing(text: str) -> None:
    assert parse_facts(text) is None


@pytest.mark.parametrize(
    ("time", "difference"), [(100, 0), (99, 0), (105, 0), (110, 5), (90, -10), (4000, 3895), (0, -100)]
)
def test_the_clock_difference_is_what_the_duration_does_not_explain(time: int, difference: int) -> None:
    assert compute_clock_difference(time, began=100.0, ended=105.0) == difference


@pytest.mark.parametrize(
    ("code", "returned", "connected", "problem"),
    [
        (0, True, True, None),
        (40, True, True, Problem.NO_FOLDER),
        (41, True, True, Problem.NOT_WRITABLE),
        (0, False, True, Problem.NOT_RETURNED),
        (0, True, False, Problem.NO_CONNECTION),
        (40, True, False, Problem.NO_FOLDER),
    ],
)
def test_the_first_problem_counts(code: int, returned: bool, connected: bool, problem: Problem | None) -> None:
    facts = replace(FACTS, folder_code=code)
    result = judge_facts("main", facts, returned=returned, difference=0, connected=connected, at=1.0)
    assert result.problem is problem
    assert result.blocks_tasks is (problem not in (None, Problem.NO_CONNECTION))


def test_a_wrong_clock_and_another_uid_are_warnings() -> None:
    assert build_conditions(PASSED, 1001) == []
    (clock,) = build_conditions(replace(PASSED, clock_difference=-60), 1001)
    assert clock.warning
    assert "-60 s" in clock.message
    (uid,) = build_conditions(PASSED, 1000)
    assert uid.warning
    assert "another uid" in uid.message


def test_an_old_python_is_said() -> None:
    assert "File transfers" not in describe_result(PASSED)
    for version in ("", "2.7", "3.7"):
        assert "File transfers do not work" in describe_result(replace(PASSED, facts=replace(FACTS, python=version)))


def test_only_passed_results_are_saved() -> None:
    failed = ProbeResult(partition="bad", state=ProbeState.FAILED, problem=Problem.NO_FOLDER)
    text = serialize_results({"main": ("mark", PASSED), "bad": ("mark", failed)})
    assert parse_results(text.encode()) == {"main": ("mark", PASSED)}
    for data in (b"", b"{}", b"[1]", b"[{}]", text.encode()[:-3]):
        assert parse_results(data) == {}


def test_an_old_slurm_and_missing_commands_are_said(tmp_path: Path) -> None:
    home = tmp_path
    commands, version = check_setup(home, str(home), {"SLURM_VERSION": "20.02.7"})
    assert commands.blocks_starts
    assert "sbatch, squeue, scancel, scontrol, sinfo, srun" in commands.message
    assert version.warning
    assert len(check_setup(home, str(home), {"SLURM_VERSION": "24.11.5"})) == 1


def test_partitions_are_read() -> None:
    lines = parse_partitions("PartitionName=a Default=YES X=1\nPartitionName=b Default=NO\n")
    assert lines == {"a": "PartitionName=a Default=YES X=1", "b": "PartitionName=b Default=NO"}
