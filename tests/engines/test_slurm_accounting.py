"""Slurm's accounting: the ends of forgotten jobs, limits of accounts and QOS; and a database that does not respond."""

from __future__ import annotations

import asyncio
import os
import shutil
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from holdfast.core.attempt import Observation, ObservedState
from holdfast.core.errors import EngineError
from holdfast.core.exits.exit import Cause
from holdfast.core.job import MIB, Resources
from holdfast.engines.slurm import SlurmEngine
from holdfast.engines.slurm.accounting import build_arguments, choose_ended_job, parse_accounted_jobs
from holdfast.engines.slurm.jobs import SEPARATOR
from holdfast.engines.slurm.reasons import (
    WaitClass,
    classify_reason,
    describe_reason,
    describe_refusal,
    is_refusal,
    may_succeed_later,
)
from tests.contracts.engine_rig import FOREVER, Rig
from tests.engines.slurm_scenarios import make_player
from tests.slurm_accounting import AccountedCluster, run_accounted_cluster
from tests.slurm_cluster import wait_until

NOW = datetime(2026, 1, 10, tzinfo=UTC)


def lines(*rows: str) -> str:
    return "".join(row.replace("|", SEPARATOR) + "\n" for row in rows)


# --- pure -------------------------------------------------------------------------------------------------------------


def test_jobs_of_earlier_days_are_found_in_any_time_zone() -> None:
    arguments = build_arguments(["hf-a", "hf-b"], NOW - timedelta(days=3, hours=1), NOW)
    assert {"--name=hf-a,hf-b", "--starttime=now-5days", "--allocations"} <= set(arguments)
    assert "--starttime=now-2days" in build_arguments(["hf-a"], NOW + timedelta(days=1), NOW)


def test_what_the_database_says_is_parsed() -> None:
    found = parse_accounted_jobs(
        lines(
            "7|7|hf-a|CANCELLED by 1000|0:15|None|n1|1000",
            "8+0|8|hf-b|COMPLETED|0:0|None|n1|1000",
            "8+1|9|hf-b|OUT_OF_MEMORY|0:125|None|n[2-3]|1000",
            "10|10|hf-c|PENDING|0:0|Resources|None assigned|1000",
            "damaged",
            "x|x|hf-d|FAILED|0:0|None|n1|1000",
        )
    )
    assert found.keys() == {"hf-a", "hf-b", "hf-c"}
    (cancelled,) = found["hf-a"]
    assert (cancelled.job.state, cancelled.job.nodes, cancelled.exit) == ("CANCELLED", "n1", (0, 15))
    assert cancelled.job.uid == 1000
    second = choose_ended_job(found["hf-b"], 1, 8)
    assert second is not None
    assert (second.job.number, second.job.leader, second.job.state) == (9, 8, "OUT_OF_MEMORY")
    assert (found["hf-c"][0].job.reason, found["hf-c"][0].job.nodes) == ("Resources", "")


@pytest.mark.parametrize(
    ("rows", "claimed", "number"),
    [
        ((), None, None),
        (("7|7|hf-a|FAILED|3:0|None|n1|1000",), None, 7),
        (("7|7|hf-a|FAILED|3:0|None|n1|1000",), 6, None),  # it ran in a job that the database does not know
        (("7|7|hf-a|RUNNING|0:0|None|n1|1000",), 7, None),  # slurmctld forgot it before it could say more
        (("7|7|hf-a|CANCELLED|0:0|None|n1|1000", "8|8|hf-a|PENDING|0:0|None||1000"), None, None),  # it may still start
        (("7|7|hf-a|TIMEOUT|0:0|None|n1|1000", "8|8|hf-a|COMPLETED|0:0|None|n2|1000"), 7, 7),  # submitted twice
    ],
)
def test_only_a_certain_end_counts(rows: tuple[str, ...], claimed: int | None, number: int | None) -> None:
    chosen = choose_ended_job(parse_accounted_jobs(lines(*rows)).get("hf-a", ()), 0, claimed)
    assert (chosen.job.number if chosen else None) == number


@pytest.mark.parametrize(
    ("reason", "expected", "words"),
    [
        ("AssocGrpCpuLimit", WaitClass.WAIT, "reached (CPUs)"),
        ("AssocGrpMemRunMinutes", WaitClass.WAIT, "reached (memory)"),
        ("AssocMaxJobsLimit", WaitClass.WAIT, "reached (jobs)"),
        ("QOSGrpGRES", WaitClass.WAIT, "reached (GPUs)"),
        ("QOSMaxCpuPerUserLimit", WaitClass.WAIT, "reached (CPUs)"),
        ("MaxMemPerAccount", WaitClass.WAIT, "reached (memory)"),
        ("AssocMaxCpuPerJobLimit", WaitClass.NEVER, "requests more CPUs than"),
        ("AssocMaxWallDurationPerJobLimit", WaitClass.NEVER, "requests more time than"),
        ("QOSMaxGRESPerJob", WaitClass.NEVER, "requests more GPUs than"),
        ("QOSMaxCpuPerNode", WaitClass.NEVER, "requests more CPUs than"),
        ("QOSMaxBBPerJob", WaitClass.NEVER, "requests more resources than"),
    ],
)
def test_limits_are_told_apart(reason: str, expected: WaitClass, words: str) -> None:
    assert classify_reason(reason) is expected
    assert words in describe_reason(reason)


def test_a_refusal_names_its_limit() -> None:
    policy = "sbatch: error: Batch job submission failed: Job violates accounting/QOS policy (job submit limit)"
    text = f"sbatch: error: QOSMaxCpuPerJobLimit {policy}"
    assert describe_refusal(text).endswith(
        "QOSMaxCpuPerJobLimit: Job violates accounting/QOS policy (job submit limit)"
    )
    assert is_refusal(text)
    assert not may_succeed_later(text)
    for limit in ("AssocMaxSubmitJobLimit", "AssocGrpSubmitJobsLimit", "QOSMaxSubmitJobPerUserLimit"):
        assert may_succeed_later(f"sbatch: error: {limit} {policy}")


# --- a real database --------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def cluster() -> Iterator[AccountedCluster]:
    with run_accounted_cluster() as cluster:
        cluster.manage("modify", "account", "small", "set", "GrpTRES=cpu=2")
        cluster.manage("modify", "account", "closed", "set", "MaxTRESPerJob=cpu=1", "MaxSubmitJobs=1")
        cluster.manage("add", "qos", "strict", "MaxTRESPerJob=cpu=1", "Flags=DenyOnLimit")
        cluster.manage("add", "qos", "shared", "GrpTRES=cpu=2", "MaxTRESPerUser=cpu=1")
        cluster.manage("modify", "user", "root", "set", "qos+=strict,shared")
        yield cluster


@pytest.fixture
def play(cluster: AccountedCluster, tmp_path: Path) -> Callable[..., None]:
    return make_player(cluster, tmp_path / "shared")


@pytest.fixture
def questions(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A file with a line for each call of sacct by the engine."""
    log, program = tmp_path / "questions", shutil.which("sacct")
    command = tmp_path / "bin" / "sacct"
    command.parent.mkdir()
    command.write_text(f'#!/bin/sh\ncase $* in *--allusers*) echo "$*" >>{log} ;; esac\nexec {program} "$@"\n')
    command.chmod(0o755)
    monkeypatch.setenv("PATH", f"{command.parent}:{os.environ['PATH']}")
    return log


def get_name(rig: Rig, attempt_id: str) -> str:
    assert isinstance(rig.engine, SlurmEngine)
    return rig.engine._names.make_name(attempt_id)


def forget_jobs(cluster: AccountedCluster, names: list[str]) -> None:
    """Wait until the database knows that they were cancelled. Then have the queue forget all jobs, as it does some time
    after their end."""
    question = ("sacct", "-X", "-n", "-P", f"--name={','.join(names)}", "-o", "State")
    wait_until(lambda: cluster.query(*question).count("CANCELLED") == len(names), cluster.folder)
    cluster.kill_controller()
    for path in (cluster.folder / "state").glob("job_state*"):
        path.unlink()
    cluster.start_controller("-i")  # although files are missing


async def end_unseen(
    rig: Rig, cluster: AccountedCluster, *attempt_ids: str, then: Callable[[], None] = lambda: None
) -> None:
    """Cancel tasks while the server is away, and have the queue forget them."""
    names = [get_name(rig, attempt_id) for attempt_id in attempt_ids]
    await rig.engine.close()
    for name in names:
        cluster.query("scancel", f"--name={name}")
    await asyncio.to_thread(forget_jobs, cluster, names)
    then()
    rig.told.clear()
    await rig.open()


async def look_until_final(rig: Rig, attempt_id: str) -> Observation:
    while (seen := await rig.look(attempt_id)).seen.alive:
        await asyncio.sleep(0.05)
    return seen


@pytest.mark.release
def test_the_end_of_a_forgotten_job_is_asked_from_the_database(
    questions: Path, play: Any, cluster: AccountedCluster
) -> None:
    async def scenario(rig: Rig) -> None:
        # Of a second one that waits, nothing is in its folder but what the server wrote.
        await rig.start_and_wait_for(b"up", "a", FOREVER, resources=Resources(cpu=8, memory=64 * MIB))
        held = rig.launch(
            "b", "echo never", engine_options={"account": "small"}, resources=Resources(cpu=3, memory=MIB)
        )
        assert (await rig.engine.start(held)).seen is ObservedState.QUEUED
        await end_unseen(rig, cluster, "a", "b")
        for attempt_id in ("a", "b"):
            ended = await look_until_final(rig, attempt_id)
            assert (ended.seen, ended.cause) == (ObservedState.LOST, Cause.LOST)
            assert "cancelled in Slurm" in ended.message
            assert questions.read_text().count(get_name(rig, attempt_id)) == 1

    play(scenario)


@pytest.mark.release
@pytest.mark.parametrize("is_slow", [False, True], ids=["away", "slow"])
def test_a_database_that_does_not_respond_changes_nothing(
    questions: Path, play: Any, cluster: AccountedCluster, is_slow: bool
) -> None:
    async def scenario(rig: Rig) -> None:
        await rig.start_and_wait_for(b"up", "a", FOREVER)
        await end_unseen(rig, cluster, "a", then=cluster.pause_database if is_slow else cluster.kill_database_daemon)
        ended = await look_until_final(rig, "a")  # only that it was terminated, in a job that Slurm does not know
        assert ended.seen is ObservedState.LOST
        assert len(questions.read_text().splitlines()) == 1

    try:
        play(scenario)
    finally:
        cluster.restore_database()


@pytest.mark.release
@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"account": "nobody"}, "The account is not valid"),
        ({"qos": "nothing"}, "The QOS is not valid"),
        ({"qos": "strict"}, "QOSMaxCpuPerJobLimit"),
    ],
)
def test_what_accounting_refuses_fails_with_advice(play: Any, options: dict[str, str], words: str) -> None:
    async def scenario(rig: Rig) -> None:
        seen = await rig.run("a", "echo never", engine_options=options, resources=Resources(cpu=2, memory=MIB))
        assert (seen.seen, seen.cause, seen.transient) == (ObservedState.REFUSED, Cause.NOT_ALLOWED, False)
        assert words in seen.message

    play(scenario)


@pytest.mark.release
@pytest.mark.parametrize(
    ("options", "cpus", "words"),
    [
        ({"account": "small"}, 2, "a limit of its account or QOS is reached (CPUs)"),
        ({"qos": "shared"}, 1, "a limit of its account or QOS is reached (CPUs)"),
        ({"account": "closed"}, 2, "It requests more CPUs than a limit of its account or QOS allows"),
    ],
)
def test_limits_of_accounts_say_whether_it_will_ever_run(
    play: Any, options: dict[str, str], cpus: int, words: str
) -> None:
    async def scenario(rig: Rig) -> None:
        resources = Resources(cpu=cpus, memory=MIB)
        if "closed" not in options.values():
            await rig.start_and_wait_for(b"up", "a", FOREVER, engine_options=options, resources=resources)
        seen = await rig.engine.start(rig.launch("b", "echo never", engine_options=options, resources=resources))
        while words not in seen.message:
            assert seen.seen is ObservedState.QUEUED
            await asyncio.sleep(0.05)
            seen = await rig.look("b")

    play(scenario)


@pytest.mark.release
def test_a_limit_of_submitted_jobs_is_waited_for(play: Any) -> None:
    async def scenario(rig: Rig) -> None:
        closed = {"account": "closed"}
        await rig.start_and_wait_for(b"up", "a", FOREVER, engine_options=closed)
        second = rig.launch("b", "echo up", engine_options=closed)
        with pytest.raises(EngineError, match="AssocMaxSubmitJobLimit"):
            await rig.engine.start(second)
        await rig.engine.stop("a", 0)
        await rig.end_of("a")
        while True:  # as the controller does
            try:
                await rig.engine.start(second)
                break
            except EngineError:
                await asyncio.sleep(0.1)
        assert (await rig.end_of("b")).code == 0

    play(scenario)
