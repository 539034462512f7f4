"""What the Slurm engine makes of each state, exit, refusal and pending reason of a real cluster."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import psutil
import pytest

from holdfast.core.attempt import Observation, ObservedState
from holdfast.core.errors import EngineError
from holdfast.core.exits.exit import Cause
from holdfast.core.job import MIB, Resources
from holdfast.core.scheduling.blockers import BlockerKind
from holdfast.core.scheduling.placement import ResourceAmount
from holdfast.engines.base import LaunchSpec
from holdfast.engines.slurm import SlurmEngine
from holdfast.engines.slurm.reasons import WaitClass, classify_reason
from tests.contracts.engine_rig import FOREVER, Rig, read_all
from tests.engines.slurm_scenarios import make_player
from tests.slurm_cluster import SlurmCluster, run_cluster

pytestmark = pytest.mark.release

PARTITIONS = """
Licenses=matlab:1
PreemptType=preempt/partition_prio
PreemptMode=REQUEUE
PartitionName=closed Nodes=n3 State=DOWN
PartitionName=drained Nodes=n3 State=DRAIN
PartitionName=narrow Nodes=n3 MaxCPUsPerNode=2
PartitionName=wide Nodes=ALL MinNodes=2
PartitionName=private Nodes=ALL DisableRootJobs=YES
PartitionName=cancelled Nodes=n1 PriorityTier=1 PreemptMode=CANCEL
PartitionName=requeued Nodes=n1 PriorityTier=1 PreemptMode=REQUEUE
PartitionName=urgent Nodes=n1 PriorityTier=10 PreemptMode=OFF
"""
SMALL = Resources(cpu=1, memory=64 * MIB)
WHOLE_NODE = Resources(cpu=8, memory=64 * MIB)


@pytest.fixture(scope="module")
def broken_nodes(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """While this file exists, nodes cannot start jobs."""
    return tmp_path_factory.mktemp("prolog") / "broken"


@pytest.fixture(scope="module")
def cluster(broken_nodes: Path) -> Iterator[SlurmCluster]:
    prolog = broken_nodes.with_name("prolog")
    prolog.write_text(f"#!/bin/sh\n[ ! -e {broken_nodes} ]\n")
    prolog.chmod(0o755)
    with run_cluster(node_options="Feature=fast", more=f"{PARTITIONS}\nProlog={prolog}") as cluster:
        yield cluster


@pytest.fixture
def play(cluster: SlurmCluster, tmp_path: Path) -> Callable[..., None]:
    return make_player(cluster, tmp_path / "shared")


async def query(cluster: SlurmCluster, *command: str) -> str:
    return (await asyncio.to_thread(cluster.query, *command)).strip()


async def find_number(cluster: SlurmCluster, rig: Rig, attempt_id: str) -> str:
    """Return the number of its newest job."""
    assert isinstance(rig.engine, SlurmEngine)
    name = rig.engine._names.make_name(attempt_id)
    return (await query(cluster, "squeue", "-h", "-t", "all", f"--name={name}", "-S", "-i", "-o", "%A")).split()[0]


async def start_when_possible(rig: Rig, launch: LaunchSpec) -> None:
    """Start it, as soon as slurmctld responds again."""
    while True:
        with suppress(EngineError):
            if (await rig.engine.start(launch)).seen.alive:
                return
        await asyncio.sleep(0.05)


async def wait_for_message(rig: Rig, attempt_id: str, words: str) -> Observation:
    while words not in (seen := await rig.look(attempt_id)).message:
        assert seen.seen is ObservedState.QUEUED, seen
        await asyncio.sleep(0.1)
    return seen


# --- ends -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("script", "code"),
    [
        ("exit 3", 3),
        ("exit 300", 44),  # modulo 256
        ("kill -9 $$", 137),
        ("sh -c 'kill -9 $$'", 137),
        ("kill -9 $PPID; sleep 60", 137),  # its runner, which cannot report
        ("cd ..; rm -r ~ || true; exit 5", 5),
    ],
)
def test_an_exit_is_that_of_the_task(play: Any, script: str, code: int) -> None:
    async def scenario(rig: Rig) -> None:
        ended = await rig.run("a", script)
        assert (ended.seen, ended.code, ended.cause, ended.message) == (ObservedState.EXITED, code, "", "")

    play(scenario)


def test_a_batch_shell_that_is_killed_fails_with_its_signal(play: Any, cluster: SlurmCluster) -> None:
    async def scenario(rig: Rig) -> None:
        await rig.start_and_wait_for(b"up", "a", "echo up; sleep 30")  # without cgroups, it runs to its end
        program = rig.engine._task_folders.home / "tasks/a/slurm-task"  # type: ignore[attr-defined]
        shells = [each.pid for each in psutil.process_iter(["cmdline"]) if str(program) in (each.info["cmdline"] or ())]
        os.kill(min(shells), signal.SIGKILL)
        ended = await rig.end_of("a")
        assert (ended.seen, ended.code) == (ObservedState.EXITED, 137)

    play(scenario)


def test_a_cancelled_job_is_said_so_whether_it_runs_or_waits(play: Any, cluster: SlurmCluster) -> None:
    async def scenario(rig: Rig) -> None:
        await rig.start_and_wait_for(b"up", "runs", FOREVER)
        await rig.engine.start(rig.launch("waits", FOREVER, engine_options={"partition": "closed"}))
        for attempt_id in ("runs", "waits"):
            await query(cluster, "scancel", await find_number(cluster, rig, attempt_id))
            ended = await rig.end_of(attempt_id)
            assert (ended.seen, ended.cause) == (ObservedState.LOST, Cause.LOST)
            assert ended.message == "The job was cancelled in Slurm, not by Holdfast"
            assert (ended.started_at is None) is (attempt_id == "waits")

    play(scenario)


@pytest.mark.parametrize("what", ["report", "slurm-task", ""])
def test_a_folder_that_the_node_does_not_see_is_a_failed_start(
    play: Any, cluster: SlurmCluster, tmp_path: Path, what: str
) -> None:
    """As if the shared folder was not mounted on that node."""

    async def scenario(rig: Rig) -> None:
        await rig.engine.start(rig.launch("a", "echo ran", engine_options={"partition": "closed"}))
        task = tmp_path / "shared/tasks/a"
        await rig.engine.close()  # the server sees the folder all the time
        away = (task / what).rename(tmp_path / "away") if what else task.rename(tmp_path / "away")
        await query(cluster, "scontrol", "update", "partitionname=closed", "state=up")
        try:
            number = await find_number(cluster, rig, "a")
            while await query(cluster, "squeue", "-h", "-t", "all", "-j", number, "-o", "%T") != "FAILED":
                await asyncio.sleep(0.1)
        finally:
            away.rename(task / what)
            await query(cluster, "scontrol", "update", "partitionname=closed", "state=down")
        await rig.open()
        seen = await rig.look("a")
        ended = await rig.end_of("a") if seen.seen.alive else seen
        assert (ended.seen, ended.transient, ended.cause) == (ObservedState.REFUSED, True, Cause.START_FAILED)
        assert "Check that all nodes share it" in ended.message
        assert await read_all(rig.log("a")) == b""

    play(scenario)


def test_a_time_limit_of_slurm_is_said_so(play: Any, cluster: SlurmCluster) -> None:
    async def scenario(rig: Rig) -> None:
        await rig.start_and_wait_for(b"up", "a", FOREVER, engine_options={"partition": "short"})
        number = await find_number(cluster, rig, "a")
        await query(cluster, "scontrol", "update", f"jobid={number}", "EndTime=now")
        ended = await rig.end_of("a")
        assert (ended.seen, ended.cause, ended.code) == (ObservedState.EXITED, Cause.ENGINE_TIME_LIMIT, 143)
        assert "time limit of its job or partition" in ended.message

    play(scenario)


def test_a_deadline_that_passes_before_the_start_is_a_refusal(play: Any, cluster: SlurmCluster) -> None:
    async def scenario(rig: Rig) -> None:
        foreign = await fill(cluster)
        await rig.engine.start(rig.launch("a", "exit 0", time_limit=60.0))
        number = await find_number(cluster, rig, "a")
        await query(cluster, "scontrol", "update", f"jobid={number}", "deadline=now+1")
        ended = await rig.end_of("a")
        await query(cluster, "scancel", foreign)
        assert (ended.seen, ended.transient, ended.cause) == (ObservedState.REFUSED, False, Cause.NOT_ALLOWED)
        assert "deadline" in ended.message
        assert ended.started_at is None

    play(scenario)


@pytest.mark.parametrize("partition", ["cancelled", "requeued"])
def test_a_preempted_task_runs_once_and_is_said_so(play: Any, cluster: SlurmCluster, partition: str) -> None:
    async def scenario(rig: Rig) -> None:
        script = "echo up; sleep 600"
        await rig.start_and_wait_for(
            b"up", "low", script, resources=WHOLE_NODE, engine_options={"partition": partition}
        )
        await rig.engine.start(
            rig.launch("high", "exit 0", resources=WHOLE_NODE, engine_options={"partition": "urgent"})
        )
        ended = await rig.end_of("low")
        assert (ended.seen, ended.cause) == (ObservedState.LOST, Cause.PREEMPTED)
        assert "preempted" in ended.message
        assert (await rig.end_of("high")).code == 0
        assert await read_all(rig.log("low")) == b"up\n"

    play(scenario)


def test_a_node_that_dies_with_its_tasks_is_said_so(play: Any, cluster: SlurmCluster) -> None:
    async def scenario(rig: Rig) -> None:
        await rig.start_and_wait_for(b"up", "a", "echo $PPID >parent; echo up; sleep 600")
        node = (await rig.look("a")).node
        await asyncio.to_thread(cluster.kill_node_with_tasks, node)
        try:
            ended = await rig.end_of("a")
        finally:
            await asyncio.to_thread(cluster.start_node, node)
        assert (ended.seen, ended.cause) == (ObservedState.LOST, Cause.NODE_FAILED)
        assert ended.node == node

    play(scenario)


def test_a_job_cancelled_for_a_number_that_was_given_twice_is_submitted_again(
    play: Any, cluster: SlurmCluster, tmp_path: Path
) -> None:
    """slurmctld forgets a job, and gives its number to the next one, which the node of the first cancels."""

    async def scenario(rig: Rig) -> None:
        more = {"engine_options": {"partition": "short"}}
        probe = rig.engine._probe  # type: ignore[attr-defined]  # its jobs have numbers, too
        probe.use_partition("short")
        while any(probe.find_result(partition) is None for partition in ("", "short")):
            await asyncio.sleep(0.05)
        await asyncio.to_thread(cluster.wait_for_save)
        script = "echo up; until [ -e ~/go ]; do sleep 0.05; done"
        await rig.start_and_wait_for(b"up", "first", script, **more)
        number = await find_number(cluster, rig, "first")
        await asyncio.to_thread(cluster.kill_controller)
        (tmp_path / "shared/tasks/first/scratch/go").touch()
        assert (await rig.end_of("first")).code == 0  # known by its files; the node keeps its number
        await asyncio.to_thread(cluster.start_controller)
        second = rig.launch("second", "echo ran >>~/ran; exit 4", **more)
        await start_when_possible(rig, second)
        assert await find_number(cluster, rig, "second") == number
        again = await rig.end_of("second")
        assert again.seen is ObservedState.ABSENT
        rig.told.clear()
        await asyncio.to_thread(cluster.resume_nodes)  # Slurm has drained it
        await start_when_possible(rig, second)  # as the controller does
        assert await find_number(cluster, rig, "second") != number
        ended = await rig.end_of("second")
        assert (ended.seen, ended.code) == (ObservedState.EXITED, 4)
        assert (tmp_path / "shared/tasks/second/scratch/ran").read_text() == "ran\n"

    try:
        play(scenario)
    finally:
        cluster.resume_nodes()


# --- refusals ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("more", "cause", "words"),
    [
        ({"resources": Resources(cpu=1, memory=999999 * MIB)}, Cause.TOO_LARGE, "much memory. Request less"),
        ({"resources": Resources(cpu=9, memory=MIB)}, Cause.TOO_LARGE, "many CPUs. Request fewer"),
        ({"resources": Resources(cpu=1, memory=MIB, gpu=1)}, Cause.NOT_ALLOWED, "GPUs. Change the request"),
        ({"engine_options": {"gres": "tpu:1"}}, Cause.NOT_ALLOWED, "`gres`"),
        ({"engine_options": {"partition": "none"}}, Cause.NOT_ALLOWED, "`partition`"),
        ({"engine_options": {"partition": "private"}}, Cause.NOT_ALLOWED, "does not allow this user"),
        ({"engine_options": {"constraint": "slow"}}, Cause.NOT_ALLOWED, "`constraint`"),
        ({"engine_options": {"constraint": "fast&slow"}}, Cause.NOT_ALLOWED, "`constraint`"),
        ({"engine_options": {"reservation": "none"}}, Cause.NOT_ALLOWED, "`reservation`"),
    ],
)
def test_a_refusal_says_what_to_change(play: Any, more: dict[str, Any], cause: Cause, words: str) -> None:
    async def scenario(rig: Rig) -> None:
        seen = await rig.engine.start(rig.launch("a", "exit 0", **more))
        assert (seen.seen, seen.transient, seen.cause) == (ObservedState.REFUSED, False, cause)
        assert words in seen.message
        assert "Slurm: " in seen.message
        assert (await rig.look("a")).seen is ObservedState.ABSENT

    play(scenario)


def test_a_partition_that_takes_no_jobs_now_is_tried_again(play: Any) -> None:
    async def scenario(rig: Rig) -> None:
        with pytest.raises(EngineError, match="takes no jobs now"):  # the controller starts it again
            await rig.engine.start(rig.launch("a", "exit 0", engine_options={"partition": "drained"}))
        assert (await rig.look("a")).seen is ObservedState.ABSENT

    play(scenario)


# --- why it waits -----------------------------------------------------------------------------------------------------


async def fill(cluster: SlurmCluster) -> str:
    """Use all nodes, as another user's job; return its number."""
    arguments = ("-N3", "--exclusive", "-J", "foreign", "-o", "/dev/null", "--wrap=sleep 600")
    return await query(cluster, "sbatch", "--parsable", *arguments)


def test_tasks_wait_for_resources_priority_and_licenses(play: Any, cluster: SlurmCluster) -> None:
    async def scenario(rig: Rig) -> None:
        arguments = ("-L", "matlab:1", "-n1", "-o", "/dev/null", "--wrap=sleep 600")
        licensed = await query(cluster, "sbatch", "--parsable", *arguments)
        await rig.engine.start(rig.launch("license", FOREVER, engine_options={"partition": "closed"}))
        number = await find_number(cluster, rig, "license")
        await query(cluster, "scontrol", "update", f"jobid={number}", "licenses=matlab:1", "partition=main")
        seen = await wait_for_message(rig, "license", "for a license")
        assert seen.since is not None
        await query(cluster, "scancel", licensed)
        await rig.wait_until_running("license")
        await rig.engine.stop("license", 0)
        await rig.end_of("license")
        foreign = await fill(cluster)
        await rig.engine.start(rig.launch("first", "exit 0", time_limit=60.0))
        await wait_for_message(rig, "first", "for free resources")
        await rig.engine.start(rig.launch("second", "exit 0", time_limit=60.0))
        await wait_for_message(rig, "second", "higher priority")
        await query(cluster, "scancel", foreign)
        assert [(await rig.end_of(id)).code for id in ("first", "second")] == [0, 0]

    play(scenario)


@pytest.mark.parametrize(
    ("partition", "changes", "reason", "kind", "words"),
    [
        ("closed", ("starttime=now+1hour", "partition=main"), "BeginTime", WaitClass.WAIT, "for its start time"),
        ("closed", ("dependency=after:{held}", "partition=main"), "Dependency", WaitClass.WAIT, "for another job"),
        ("wide", (), "PartitionNodeLimit", WaitClass.NEVER, "Choose another partition"),
        ("short", (), "PartitionTimeLimit", WaitClass.NEVER, "Shorten it"),
        ("narrow", (), "PartitionConfig", WaitClass.NEVER, "Request less"),
        ("closed", (), "PartitionDown", WaitClass.ACT, "Ask an admin"),
    ],
)
def test_a_pending_reason_has_a_class_and_advice(
    play: Any, cluster: SlurmCluster, partition: str, changes: tuple[str, ...], reason: str, kind: WaitClass, words: str
) -> None:
    async def scenario(rig: Rig) -> None:
        arguments = ("--hold", "-o", "/dev/null", "--wrap=true")
        held = await query(cluster, "sbatch", "--parsable", *arguments)
        request = {"time_limit": 600.0, "resources": Resources(cpu=4, memory=64 * MIB)}
        await rig.engine.start(rig.launch("a", FOREVER, engine_options={"partition": partition}, **request))
        number = await find_number(cluster, rig, "a")
        for change in changes:
            await query(cluster, "scontrol", "update", f"jobid={number}", change.format(held=held))
        seen = await wait_for_message(rig, "a", words)
        assert await query(cluster, "squeue", "-h", "-j", number, "-o", "%r") == reason
        assert classify_reason(reason) is kind
        assert ("Slurm will never start it" in seen.message) is (kind is WaitClass.NEVER)
        await query(cluster, "scancel", held)

    play(scenario)


@pytest.mark.parametrize(("command", "words"), [("hold", "An admin holds"), ("uhold", "The job is held")])
def test_a_held_job_says_how_it_is_released(play: Any, cluster: SlurmCluster, command: str, words: str) -> None:
    async def scenario(rig: Rig) -> None:
        foreign = await fill(cluster)
        await rig.engine.start(rig.launch("a", "exit 7", engine_options={"partition": "main"}))
        number = await find_number(cluster, rig, "a")
        await query(cluster, "scontrol", command, number)
        await query(cluster, "scancel", foreign)
        assert "scontrol release" in (await wait_for_message(rig, "a", words)).message
        await query(cluster, "scontrol", "release", number)
        assert (await rig.end_of("a")).code == 7

    play(scenario)


def test_a_node_that_cannot_start_jobs_is_a_failed_start(play: Any, cluster: SlurmCluster, broken_nodes: Path) -> None:
    async def scenario(rig: Rig) -> None:
        ended = await rig.run("a", "echo ran")
        assert (ended.seen, ended.cause, ended.started_at) == (ObservedState.LOST, Cause.LOST, None)
        assert ended.message
        assert await read_all(rig.log("a")) == b""

    broken_nodes.touch()
    try:
        play(scenario)
    finally:
        broken_nodes.unlink()
        cluster.resume_nodes()


def test_a_job_that_slurm_could_not_start_and_holds_is_said_so(
    play: Any, cluster: SlurmCluster, broken_nodes: Path
) -> None:
    """Only if an admin lets Slurm requeue the job: the engine does not."""

    async def scenario(rig: Rig) -> None:
        await rig.engine.start(rig.launch("a", "exit 6", engine_options={"partition": "closed"}))
        number = await find_number(cluster, rig, "a")
        broken_nodes.touch()
        try:
            await query(cluster, "scontrol", "update", f"jobid={number}", "requeue=1", "partition=main")
            while "holds it" not in (seen := await rig.look("a")).message:
                assert seen.seen.alive, seen
                await asyncio.sleep(0.1)
        finally:
            broken_nodes.unlink()
        assert await query(cluster, "squeue", "-h", "-j", number, "-o", "%r") == "launch failed requeued held"
        await asyncio.to_thread(cluster.resume_nodes)
        await query(cluster, "scontrol", "release", number)
        assert (await rig.end_of("a")).code == 6

    play(scenario)


def test_a_drained_node_and_a_reservation_are_said_so(play: Any, cluster: SlurmCluster) -> None:
    async def scenario(rig: Rig) -> None:
        await query(cluster, "scontrol", "update", "nodename=n3", "state=drain", "reason=test")
        try:
            await rig.engine.start(rig.launch("a", "exit 0", engine_options={"partition": "short"}))
            await wait_for_message(rig, "a", "down, drained or reserved")
            assert isinstance(rig.engine, SlurmEngine)
            wait = await rig.engine.explain_queue_wait(["a"])
            assert wait is not None
            assert (wait.kind, wait.holders) == (BlockerKind.ENGINE_ACTION, ())
            assert wait.text.endswith("Nodes: n3.")
        finally:
            await query(cluster, "scontrol", "update", "nodename=n3", "state=resume")
        assert (await rig.end_of("a")).code == 0
        given = ("starttime=now+1hour", "duration=60", "users=root", "nodes=n2", "reservationname=later")
        await query(cluster, "scontrol", "create", "reservation", *given)
        await rig.engine.start(rig.launch("b", "exit 0", engine_options={"reservation": "later"}))
        await wait_for_message(rig, "b", "for its reservation")
        await rig.engine.stop("b", 0)
        await rig.end_of("b")
        await query(cluster, "scontrol", "delete", "reservationname=later")
        given = ("starttime=now", "duration=60", "users=root", "nodes=n3", "flags=maint", "reservationname=repair")
        await query(cluster, "scontrol", "create", "reservation", *given)
        await rig.engine.start(rig.launch("c", "exit 0", engine_options={"partition": "short"}))
        await wait_for_message(rig, "c", "reserved for maintenance")
        await query(cluster, "scontrol", "delete", "reservationname=repair")
        assert (await rig.end_of("c")).code == 0

    play(scenario)


# --- who has the resources --------------------------------------------------------------------------------------------


def test_a_wait_for_resources_names_own_tasks_and_other_users(play: Any, cluster: SlurmCluster) -> None:
    async def scenario(rig: Rig) -> None:
        assert isinstance(rig.engine, SlurmEngine)
        more = {"resources": WHOLE_NODE, "engine_options": {"partition": "short"}}
        arguments = ("-w", "n3", "-c2", "--mem=100", "-t", "5", "-o", "/dev/null", "--wrap=sleep 600")
        others = [await query(cluster, "sbatch", "--parsable", *arguments) for _ in range(2)]
        for number in others:
            while await query(cluster, "squeue", "-h", "-j", number, "-o", "%T") != "RUNNING":
                await asyncio.sleep(0.1)
        half = Resources(cpu=4, memory=64 * MIB)
        await rig.start_and_wait_for(
            b"up", "j1.0.main-0.0", FOREVER, resources=half, engine_options={"partition": "short"}
        )
        await rig.start_and_wait_for(b"up", "j2.0.main-0.0", FOREVER, resources=SMALL)  # on another node
        await rig.engine.start(rig.launch("waits", FOREVER, time_limit=60.0, **more))
        await wait_for_message(rig, "waits", "for free resources")
        wait = await rig.engine.explain_queue_wait(["waits"])
        assert wait is not None
        assert (wait.kind, wait.text) == (BlockerKind.ENGINE_WAIT, "Waits in Slurm for free resources")
        own, foreign = wait.holders
        assert (own.attempt_id, own.has) == ("j1.0.main-0.0", ResourceAmount(cpu=4, memory=64 * MIB))
        assert (foreign.user, foreign.job_count, foreign.has) == ("root", 2, ResourceAmount(cpu=4, memory=200 * MIB))
        assert foreign.until is not None
        assert await rig.engine.explain_queue_wait(["j1.0.main-0.0"]) is None
        await query(cluster, "scancel", *others)

    play(scenario)


# --- what never starts ------------------------------------------------------------------------------------------------


def test_a_task_that_slurm_never_starts_fails_after_a_while(play: Any, cluster: SlurmCluster) -> None:
    async def scenario(rig: Rig) -> None:
        seen = await rig.engine.start(rig.launch("a", FOREVER, engine_options={"partition": "wide"}))
        ended = await rig.end_of("a") if seen.seen.alive else seen
        assert (ended.seen, ended.transient, ended.cause) == (ObservedState.REFUSED, False, Cause.NOT_ALLOWED)
        assert "Slurm will never start it" in ended.message
        assert "Choose another partition" in ended.message
        number = await find_number(cluster, rig, "a")
        assert await query(cluster, "squeue", "-h", "-t", "all", "-j", number, "-o", "%T") == "CANCELLED"
        await rig.reopen()
        assert (await rig.look("a")).seen is ObservedState.REFUSED

    play(scenario, never_timeout=1.0)


def test_a_gang_that_slurm_never_starts_fails_as_a_whole(play: Any) -> None:
    async def scenario(rig: Rig) -> None:
        gang = ("j.0.master-0.0", "j.0.worker-0.0")
        for attempt_id in gang:
            more = {"gang": gang, "engine_options": {"partition": "wide"}}
            await rig.engine.start(rig.launch(attempt_id, FOREVER, **more))
        for attempt_id in gang:
            ended = await rig.end_of(attempt_id)
            assert (ended.seen, ended.transient) == (ObservedState.REFUSED, False)
            assert "Choose another partition" in ended.message

    play(scenario, never_timeout=1.0)


def test_a_task_starts_when_what_it_needs_is_added(play: Any, cluster: SlurmCluster) -> None:
    async def scenario(rig: Rig) -> None:
        await rig.engine.start(rig.launch("a", "exit 6", engine_options={"partition": "wide"}))
        await wait_for_message(rig, "a", "Slurm will never start it")
        await query(cluster, "scontrol", "update", "partitionname=wide", "minnodes=0")
        try:
            assert (await rig.end_of("a")).code == 6
        finally:
            await query(cluster, "scontrol", "update", "partitionname=wide", "minnodes=2")

    play(scenario)
