"""What Slurm's commands print, and what sbatch is given. Pure."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from holdfast.core.job import GIB, MIB, Resources
from holdfast.engines.slurm.jobs import (
    SEPARATOR,
    QueuedJob,
    choose_job,
    list_duplicates,
    parse_config,
    parse_exit,
    parse_jobs,
    parse_totals,
)
from holdfast.engines.slurm.names import JobNames
from holdfast.engines.slurm.options import SlurmOptions
from holdfast.engines.slurm.reasons import (
    WaitClass,
    classify_reason,
    describe_reason,
    describe_refusal,
    is_refusal,
    may_succeed_later,
)
from holdfast.engines.slurm.render import TaskLocation, render_resources, render_submission
from tests.contracts.engine_rig import launch

OPTIONS = SlurmOptions(partition="main", constraint="ib", reservation="exam")
NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)


def line(*fields: str) -> str:
    return SEPARATOR.join(fields + (("1000",) if len(fields) == 9 else ())) + "\n"


def job(number: int, state: str = "PENDING", *, leader: int = 0, offset: int = 0) -> QueuedJob:
    return QueuedJob(number=number, leader=leader or number, offset=offset, name="hf-a", state=state)


def test_a_comment_with_lines_adds_no_jobs() -> None:
    forged = line("9", "9", "hf-a-2", "FAILED", "None", "n1", "1767268800", "1767268801", "main", "x", "1000")
    real = line("7", "7", "hf-a-1", "RUNNING", "None", "n1", "1767268800", "1767268801", "main", f"c\n{forged}", "1001")
    assert parse_jobs(f"mark {real}", "hf-a-", "mark ") == {}
    assert list(parse_jobs(f"mark {real}mark {forged}", "hf-a-", "mark ")) == ["hf-a-2"]


# --- names ------------------------------------------------------------------------------------------------------------


def test_names_differ_by_attempt_and_by_installation() -> None:
    one, two = JobNames("installation1"), JobNames("other-place")
    names = {names.make_name(id) for names in (one, two) for id in ("j.0.w-0.0", "j.0.w-0.1")}
    assert len(names) == 4
    assert all(len(name) <= 40 and "," not in name for name in names)
    assert one.make_name("a").startswith(one.prefix)
    assert not one.make_name("a").startswith(two.prefix)


# --- squeue and sinfo -------------------------------------------------------------------------------------------------


def test_jobs_of_this_installation_are_read_and_no_others() -> None:
    text = (
        line("7", "7", "hf-a-1", "RUNNING", "None", "n1", "1767268800", "1767268801", "main", "j.0.w-0.0", "1000")
        + line("9+1", "10", "hf-a-2", "PENDING", "Resources", "", "1767268800", "N/A", "a,b", "x", "1001")
        + line("11", "11", "hf-b-1", "RUNNING", "None", "n1", "1767268800", "1767268801", "main", "y", "1000")
        + "slurm_load_jobs error\n"
    )
    found = parse_jobs(text, "hf-a-")
    assert list(found) == ["hf-a-1", "hf-a-2"]
    (alone,), (member,) = found.values()
    assert (alone.leader, alone.offset, alone.reason, alone.submitted_at) == (7, 0, "", NOON)
    assert (member.number, member.leader, member.offset, member.start_at) == (10, 9, 1, None)
    assert (alone.comment, alone.partition, member.partition) == ("j.0.w-0.0", "main", "a,b")
    assert (alone.uid, member.uid) == (1000, 1001)
    assert member.is_pending
    assert not member.is_final


def test_the_job_that_took_the_claim_is_chosen() -> None:
    first, second = job(5, "CANCELLED"), job(8, "RUNNING")
    assert choose_job([second, first], 0, None) is second  # it still runs
    assert choose_job([second, first], 0, 5) is first
    assert choose_job([second, first], 0, 4) is None  # forgotten: numbers are used again
    assert choose_job([], 0, None) is None
    member = job(10, "RUNNING", leader=9, offset=1)
    assert choose_job([job(9, "RUNNING"), member], 1, 9) is member


def test_only_pending_second_submissions_are_duplicates() -> None:
    assert list_duplicates([job(5), job(8)]) == [8]
    assert list_duplicates([job(5, "RUNNING"), job(8), job(9)]) == [8, 9]
    assert list_duplicates([job(5, "FAILED"), job(8)]) == []
    assert list_duplicates([job(5), job(8, "RUNNING")]) == []
    assert list_duplicates([job(9), job(10, leader=9, offset=1)]) == []


def test_the_exit_is_read_only_of_the_job_with_that_name() -> None:
    text = "JobId=3 JobName=hf-a UserId=root(0) JobState=FAILED ExitCode=3:0 RunTime=00:00:02"
    assert parse_exit(text, "hf-a") == (3, 0)
    assert parse_exit(text, "hf-b") is None
    assert parse_exit("", "hf-a") is None


def test_a_node_in_two_partitions_is_counted_once() -> None:
    text = (
        line("n1", "8", "4000+", "gpu:2,gpu:a100:4(S:0-1)", "idle")
        + line("n1", "8", "4000", "gpu:2,gpu:a100:4(S:0-1)", "idle")
        + line("n2", "16", "1000", "(null)", "drain*")
    )
    totals = parse_totals(text)
    assert (totals.cpus, totals.memory, totals.gpus, totals.nodes, totals.down) == (24, 5000 * MIB, 6, 2, 1)


def test_the_configuration_is_read() -> None:
    assert parse_config("Configuration data\nTaskPlugin  = task/cgroup,task/affinity\n") == {
        "TaskPlugin": "task/cgroup,task/affinity"
    }


# --- reasons ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("reason", "kind", "words"),
    [
        ("Resources", WaitClass.WAIT, "free resources"),
        ("Priority", WaitClass.WAIT, "higher priority"),
        ("AssocGrpCpuLimit", WaitClass.WAIT, "CPUs"),
        ("QOSGrpGRES", WaitClass.WAIT, "GPUs"),
        ("AssocGrpMemLimit", WaitClass.WAIT, "memory"),
        ("QOSMaxJobsPerUserLimit", WaitClass.WAIT, "jobs"),
        ("MaxGRESPerAccount", WaitClass.WAIT, "GPUs"),
        ("QOSMaxCpuPerJobLimit", WaitClass.NEVER, "more CPUs than a limit of its account or QOS allows"),
        ("AssocMaxWallDurationPerJobLimit", WaitClass.NEVER, "more time than a limit of its account or QOS allows"),
        ("QOSMinCpuNotSatisfied", WaitClass.NEVER, "larger jobs only (CPUs)"),
        ("InvalidAccount", WaitClass.NEVER, "`account`"),
        ("InvalidQOS", WaitClass.NEVER, "`qos`"),
        ("AccountNotAllowed", WaitClass.NEVER, "`account`"),
        ("QOSNotAllowed", WaitClass.NEVER, "`qos`"),
        ("DependencyNeverSatisfied", WaitClass.NEVER, "can never succeed"),
        ("ReservationDeleted", WaitClass.NEVER, "`reservation`"),
        ("NodeDown", WaitClass.WAIT, "is down"),
        (
            "Nodes required for job are DOWN, DRAINED or reserved for jobs in higher priority partitions",
            WaitClass.WAIT,
            "down, drained or reserved for partitions",
        ),
        ("job requeued in held state", WaitClass.ACT, "scontrol release"),
        ("PartitionInactive", WaitClass.ACT, "inactive"),
        ("PartitionConfig", WaitClass.NEVER, "Request less"),
        ("BadConstraints", WaitClass.NEVER, "constraint"),
        ("ReqNodeNotAvail, UnavailableNodes:n3", WaitClass.ACT, "down, drained or reserved"),
        ("ReqNodeNotAvail, Reserved for maintenance", WaitClass.WAIT, "for maintenance"),
        ("JobHeldAdmin", WaitClass.ACT, "scontrol release"),
        ("launch failed requeued held", WaitClass.ACT, "admin"),
        ("SomethingNew", WaitClass.WAIT, "SomethingNew"),
        ("", WaitClass.WAIT, "queue"),
    ],
)
def test_a_pending_reason_is_told_in_plain_words(reason: str, kind: WaitClass, words: str) -> None:
    assert classify_reason(reason) is kind
    assert words in describe_reason(reason)


@pytest.mark.parametrize(
    ("minutes", "shown"),
    [(-60, ""), (0, "12:00"), (1, "12:10"), (59, "13:00"), (60 * 7 + 1, "20:00"), (60 * 24 * 8, "")],
)
def test_an_estimated_start_is_rounded(minutes: int, shown: str) -> None:
    """It changes all the time, and each change is an event of the job."""
    text = describe_reason("Resources", NOON + timedelta(minutes=minutes), NOON)
    assert text.partition("; ")[2] == (f"expected start: 2026-01-01 {shown} UTC" if shown else "")


def test_what_never_starts_has_no_estimate() -> None:
    assert "expected" not in describe_reason("PartitionConfig", NOON, NOON)


def test_a_refusal_is_told_apart_from_an_outage() -> None:
    refused = "sbatch: error: Batch job submission failed: Invalid partition name specified"
    assert is_refusal(refused)
    advice = "The partition does not exist. Change `partition`."
    assert describe_refusal(refused) == f"{advice} Slurm: Invalid partition name specified"
    for outage in (
        "sbatch: error: Batch job submission failed: Unable to contact slurm controller (connect failure)",
        "sbatch: error: Batch job submission failed: Socket timed out on send/recv operation",
        "sbatch: error: Slurm temporarily unable to accept job, sleeping and retrying",
        "",
    ):
        assert not is_refusal(outage)


@pytest.mark.parametrize(
    ("text", "later", "words"),
    [
        (
            "Job violates accounting/QOS policy (job submit limit, user's size and/or time limits)",
            False,
            "Request less",
        ),
        ("QOSMaxSubmitJobPerUserLimit\nsbatch: error: Job violates accounting/QOS policy", True, "limit of jobs"),
        ("AssocMaxSubmitJobLimit\nsbatch: error: Job violates accounting/QOS policy", True, "limit of jobs"),
        ("Required partition not available (inactive or drain)", True, "takes no jobs now"),
        ("Invalid account or account/partition combination specified", False, "`account`"),
        ("Invalid qos specification", False, "`qos`"),
        ("Requested time limit is invalid (missing or exceeds some limit)", False, "Shorten it"),
        ("User's group not permitted to use this partition", False, "group"),
        ("Access/permission denied", False, "this user"),
        ("CPU count per node can not be satisfied\nsbatch: error: Requested node configuration", False, "CPUs"),
    ],
)
def test_a_refusal_for_now_is_told_apart_from_one_for_ever(text: str, later: bool, words: str) -> None:
    shown = f"sbatch: error: {text}"
    assert is_refusal(shown) is not later
    assert may_succeed_later(shown) is later
    assert words in describe_refusal(shown)


# --- sbatch -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("more", "expected"),
    [
        ({"resources": Resources(cpu=0.5, memory=1)}, ["--cpus-per-task=1", "--mem=1M"]),
        ({"resources": Resources(cpu=2.1, memory=2 * GIB)}, ["--cpus-per-task=3", "--mem=2048M"]),
        ({"resources": Resources(gpu=2)}, ["--gres=gpu:2"]),
        ({"resources": Resources(gpu=2), "engine_options": {"gres": "gpu:a100:2"}}, ["--gres=gpu:a100:2"]),
        ({"time_limit": 3600.0}, ["--time=61"]),
        ({"engine_options": {"partition": "big", "qos": "high"}}, ["--partition=big", "--qos=high"]),
        ({}, ["--partition=main", "--constraint=ib", "--reservation=exam"]),
    ],
)
def test_resources_and_options_become_arguments(more: dict[str, Any], expected: list[str]) -> None:
    assert set(expected) <= set(render_resources(launch("a", "true", **more), OPTIONS))


def test_without_a_limit_no_time_is_requested() -> None:
    arguments = render_resources(launch("a", "true"), OPTIONS)
    assert not [each for each in arguments if each.startswith(("--time", "--gres"))]


def test_a_submission_contains_nothing_of_the_job() -> None:
    secret = launch("a", "echo hunter2", env={"TOKEN": "hunter2"}, secret_env=frozenset({"TOKEN"}))
    alone = render_submission("hf-a", [TaskLocation(secret, "/s/a")], OPTIONS)
    gang = render_submission("hf-a", [TaskLocation(secret, "/s/a"), TaskLocation(secret, "/s/b")], OPTIONS)
    for each in (alone, gang):
        assert "hunter2" not in " ".join((*each.arguments, each.script))
        assert "--no-requeue" in each.arguments


def test_a_gang_is_one_job_with_a_component_for_each_task() -> None:
    tasks = [
        TaskLocation(launch(id, "true", resources=Resources(cpu=cpu)), f"/s/{id}") for id, cpu in (("a", 1), ("b", 4))
    ]
    gang = render_submission("hf-a", tasks, OPTIONS)
    split = gang.arguments.index(":")
    assert "--cpus-per-task=1" in gang.arguments[:split]
    assert "--cpus-per-task=4" in gang.arguments[split:]
    assert "--dependency=singleton" not in gang.arguments  # its components would wait for each other
    assert "--het-group=1" in gang.script
    alone = render_submission("hf-a", tasks[:1], OPTIONS)
    assert "--dependency=singleton" in alone.arguments
    assert ":" not in alone.arguments


def test_folders_with_odd_names_are_quoted_in_scripts() -> None:
    tasks = [TaskLocation(launch(id, "true"), f"/s $(x)/{id}") for id in ("a", "b")]
    assert "'/s $(x)/b/slurm-task'" in render_submission("hf-a", tasks, OPTIONS).script
