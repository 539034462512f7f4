"""Tasks on a real Slurm cluster: gangs, the queue, options, ports, nodes that fail."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from holdfast.core.attempt import Observation, ObservedState
from holdfast.core.errors import EngineError
from holdfast.core.exits.exit import Cause
from holdfast.core.job import MIB, Resources
from holdfast.engines.slurm import SlurmEngine
from tests.contracts.engine_rig import FOREVER, TIMEOUT, Rig, read_all
from tests.engines.slurm_scenarios import make_player
from tests.slurm_cluster import SlurmCluster, run_cluster

pytestmark = pytest.mark.release

GANG = ("j.0.master-0.0", "j.0.worker-0.0", "j.0.worker-1.0")
WHOLE_NODE = Resources(cpu=8, memory=64 * MIB)


@pytest.fixture(scope="module")
def cluster() -> Iterator[SlurmCluster]:
    with run_cluster() as cluster:
        yield cluster


@pytest.fixture
def play(cluster: SlurmCluster, tmp_path: Path) -> Callable[..., None]:
    return make_player(cluster, tmp_path / "shared")


async def start_gang(rig: Rig, scripts: dict[str, str], **more: Any) -> list[Observation]:
    return [await rig.engine.start(rig.launch(id, script, gang=GANG, **more)) for id, script in scripts.items()]


# --- gangs ------------------------------------------------------------------------------------------------------------


def test_a_gang_starts_together_and_each_task_has_its_own_end(play: Any) -> None:
    async def scenario(rig: Rig) -> None:
        scripts = {id: f"echo {number}; exit {number}" for number, id in enumerate(GANG)}
        seen = await start_gang(rig, scripts)
        assert [each.seen for each in seen[:2]] == [ObservedState.STARTING] * 2
        assert all(each.message and each.since for each in seen[:2])
        for number, attempt_id in enumerate(GANG):
            ended = await rig.end_of(attempt_id)
            assert (ended.seen, ended.code) == (ObservedState.EXITED, number)
            assert ended.node
            assert await read_all(rig.log(attempt_id)) == f"{number}\n".encode()

    play(scenario)


def test_a_member_is_stopped_alone(play: Any) -> None:
    async def scenario(rig: Rig) -> None:
        await start_gang(rig, dict.fromkeys(GANG, FOREVER))
        for attempt_id in GANG:
            await rig.wait_until_running(attempt_id)
            await rig.log(attempt_id).wait_for_growth(0, TIMEOUT)
        await rig.engine.stop(GANG[1], TIMEOUT)
        assert (await rig.end_of(GANG[1])).code == 143
        await rig.engine.stop(GANG[2], 0)
        assert (await rig.end_of(GANG[2])).code == 137
        assert (await rig.look(GANG[0])).seen is ObservedState.RUNNING
        await rig.reopen()
        assert (await rig.look(GANG[0])).seen is ObservedState.RUNNING
        assert (await rig.look(GANG[1])).code == 143

    play(scenario)


def test_a_held_member_keeps_its_exit_code(play: Any) -> None:
    async def scenario(rig: Rig) -> None:
        scripts = {GANG[0]: "exit 0", GANG[1]: "exit 3", GANG[2]: FOREVER}
        await start_gang(rig, scripts, hold=True)
        held = await rig.end_of(GANG[1])
        assert (held.seen, held.code) == (ObservedState.HELD, 3)
        assert (await rig.stop_held(GANG[1])).code == 3
        assert (await rig.look(GANG[2])).seen is ObservedState.RUNNING

    play(scenario)


@pytest.mark.parametrize("gang", [(), GANG], ids=["alone", "gang"])
def test_a_held_task_ends_if_it_was_continued_too_early(play: Any, gang: tuple[str, ...]) -> None:
    """It reports that it is held before it stops itself, so both signals may come before that."""

    async def scenario(rig: Rig) -> None:
        assert isinstance(rig.engine, SlurmEngine)
        for name in ("signal_job", "signal_step"):
            _lose_first_continue(rig.engine._commands, name)
        for attempt_id in gang or GANG[:1]:
            await rig.engine.start(rig.launch(attempt_id, "exit 3", hold=True, gang=gang))
        assert (await rig.end_of(GANG[0])).seen is ObservedState.HELD
        assert (await rig.stop_held(GANG[0])).code == 3

    play(scenario)


def _lose_first_continue(commands: Any, name: str) -> None:
    send, lost = getattr(commands, name), []

    async def send_signals(target: str, *signals: str, **more: Any) -> None:
        if "CONT" in signals and not lost:
            lost.append("CONT")
            signals = tuple(signal for signal in signals if signal != "CONT")
        await send(target, *signals, **more)

    setattr(commands, name, send_signals)


def test_a_gang_that_was_not_complete_is_absent_after_a_restart(play: Any) -> None:
    async def scenario(rig: Rig) -> None:
        await rig.engine.start(rig.launch(GANG[0], "echo once", gang=GANG))
        assert (await rig.look(GANG[0])).seen is ObservedState.STARTING
        await rig.reopen()
        assert (await rig.look(GANG[0])).seen is ObservedState.ABSENT
        rig.told.clear()
        await start_gang(rig, dict.fromkeys(GANG, "echo once"))
        for attempt_id in GANG:
            assert (await rig.end_of(attempt_id)).code == 0
            assert await read_all(rig.log(attempt_id)) == b"once\n"

    play(scenario)


def test_a_member_does_not_wait_forever_for_its_gang(play: Any) -> None:
    async def scenario(rig: Rig) -> None:
        await rig.engine.start(rig.launch(GANG[0], "exit 0", gang=GANG))
        seen = await rig.end_of(GANG[0])
        assert (seen.seen, seen.transient) == (ObservedState.REFUSED, True)
        assert (await rig.look(GANG[0])).seen is ObservedState.REFUSED

    play(scenario, gang_timeout=0.1)


def test_two_servers_that_start_the_same_gang_run_it_once(play: Any) -> None:
    async def scenario(rig: Rig) -> None:
        other = await rig.another()
        launches = [rig.launch(id, "echo once; sleep 0.5", gang=GANG) for id in GANG]
        await asyncio.gather(*(engine.start(launch) for engine in (rig.engine, other) for launch in launches))
        for attempt_id in GANG:
            await rig.wait_until_running(attempt_id)
            assert (await rig.end_of(attempt_id)).code == 0
            assert await read_all(rig.log(attempt_id)) == b"once\n"

    play(scenario)


def test_members_of_a_pending_gang_are_stopped(play: Any) -> None:
    async def scenario(rig: Rig) -> None:
        for number in range(3):
            await rig.start_and_wait_for(b"up", f"full{number}", FOREVER, resources=WHOLE_NODE)
        await start_gang(rig, dict.fromkeys(GANG, FOREVER))
        assert (await rig.look(GANG[0])).seen is ObservedState.QUEUED
        for attempt_id in GANG:
            await rig.engine.stop(attempt_id, TIMEOUT)
        for attempt_id in GANG:
            assert (await rig.end_of(attempt_id)).code == 143
        await rig.engine.stop("full0", 0)
        await rig.end_of("full0")
        assert await rig.engine.list_attempts() == sorted((*GANG, "full0", "full1", "full2"))
        assert await read_all(rig.log(GANG[0])) == b""

    play(scenario)


# --- the queue --------------------------------------------------------------------------------------------------------


def test_a_queued_task_says_why_and_can_be_stopped(play: Any) -> None:
    async def scenario(rig: Rig) -> None:
        for number in range(3):
            await rig.start_and_wait_for(b"up", f"full{number}", FOREVER, resources=WHOLE_NODE)
        await rig.engine.start(rig.launch("waits", FOREVER, resources=WHOLE_NODE))
        while "free resources" not in (seen := await rig.look("waits")).message:
            assert seen.seen is ObservedState.QUEUED
            await asyncio.sleep(0.05)
        assert seen.since is not None
        await rig.reopen()
        assert (await rig.look("waits")).seen is ObservedState.QUEUED
        await rig.engine.stop("waits", TIMEOUT)
        ended = await rig.end_of("waits")
        assert (ended.seen, ended.started_at) == (ObservedState.EXITED, None)

    play(scenario)


@pytest.mark.parametrize(
    ("more", "cause", "words"),
    [
        ({"resources": Resources(cpu=1, memory=999999 * MIB)}, Cause.TOO_LARGE, "memory"),
        ({"engine_options": {"partition": "none"}}, Cause.NOT_ALLOWED, "partition"),
        ({"resources": Resources(cpu=1, memory=64 * MIB, gpu=2)}, Cause.NOT_ALLOWED, "GPUs"),
    ],
)
def test_what_can_never_run_is_refused_with_what_to_change(
    play: Any, more: dict[str, Any], cause: Cause, words: str
) -> None:
    async def scenario(rig: Rig) -> None:
        seen = await rig.engine.start(rig.launch("a", "exit 0", **more))
        assert (seen.seen, seen.transient, seen.cause) == (ObservedState.REFUSED, False, cause)
        assert words in seen.message
        assert await rig.engine.list_attempts() == []

    play(scenario)


def test_options_of_the_job_reach_slurm(play: Any, cluster: SlurmCluster) -> None:
    async def scenario(rig: Rig) -> None:
        more = {"engine_options": {"partition": "short"}, "time_limit": 61.0}
        await rig.start_and_wait_for(b"up", "a", FOREVER, **more)
        assert (await rig.look("a")).node == "n3"
        assert isinstance(rig.engine, SlurmEngine)
        name = rig.engine._names.make_name("a")
        number = await asyncio.to_thread(cluster.query, "squeue", "-h", f"--name={name}", "-o", "%A")
        shown = await asyncio.to_thread(cluster.query, "scontrol", "show", "job", number.strip())
        assert "Partition=short" in shown
        assert "TimeLimit=00:02:00" in shown

    play(scenario)


def test_ports_are_chosen_on_the_node_and_reported(play: Any) -> None:
    async def scenario(rig: Rig) -> None:
        counts = {"http": 2, "ssh": 1}
        for attempt_id in ("a", "b"):
            script = 'echo "$HOLDFAST_PORT_HTTP $HOLDFAST_PORT_SSH"; echo up; sleep 600'
            await rig.start_and_wait_for(b"up", attempt_id, script, port_counts=counts)
        seen = await rig.engine.observe(["a", "b"])
        ports = [port for each in seen.values() for numbers in each.ports.values() for port in numbers]
        assert len(ports) == len(set(ports)) == 6
        http, ssh = seen["a"].ports["http"], seen["a"].ports["ssh"]
        assert await read_all(rig.log("a")) == f"{http[0]},{http[1]} {ssh[0]}\nup\n".encode()

    play(scenario)


# --- failures ---------------------------------------------------------------------------------------------------------


def test_a_task_on_a_failed_node_is_lost_only_when_its_heartbeat_stops(play: Any, cluster: SlurmCluster) -> None:
    """Slurm gives up a node whose daemon died, while the task there runs on: a retry would run beside it."""

    async def scenario(rig: Rig) -> None:
        await rig.start_and_wait_for(b"up", "a", "echo $PPID >pid; echo up; sleep 600")
        seen = await rig.look("a")
        await asyncio.to_thread(cluster.kill_node, seen.node)
        try:
            assert isinstance(rig.engine, SlurmEngine)
            command = ("squeue", "-h", "-t", "all", f"--name={rig.engine._names.make_name('a')}", "-o", "%T")
            while "NODE_FAIL" not in await asyncio.to_thread(cluster.query, *command):
                await asyncio.sleep(0.2)
            await rig.engine.observe(["a"])
            await asyncio.sleep(1.0)  # some looks of the engine
            assert (await rig.look("a")).seen is ObservedState.RUNNING
            assert not [each for each in rig.told if each.seen.final]
        finally:
            await asyncio.to_thread(cluster.start_node, seen.node)  # it kills the task
        ended = await rig.end_of("a")
        assert (ended.seen, ended.cause) == (ObservedState.LOST, Cause.NODE_FAILED)

    play(scenario)


def test_nothing_is_absent_while_the_shared_folder_is_away(play: Any, tmp_path: Path) -> None:
    async def scenario(rig: Rig) -> None:
        await rig.start_and_wait_for(b"up", "a", FOREVER)
        tasks = tmp_path / "shared" / "tasks"
        tasks.rename(tmp_path / "away")
        with pytest.raises(EngineError):
            await rig.look("a")
        with pytest.raises(EngineError):
            await rig.engine.start(rig.launch("b", "exit 0"))
        (tmp_path / "away").rename(tasks)
        assert (await rig.look("a")).seen is ObservedState.RUNNING
        assert not [each for each in rig.told if not each.seen.alive]

    play(scenario)


def test_a_time_limit_that_just_fits_its_partition_is_accepted(play: Any) -> None:
    async def scenario(rig: Rig) -> None:
        seen = await rig.run("a", "exit 3", time_limit=300.0, engine_options={"partition": "short"})
        assert (seen.seen, seen.code) == (ObservedState.EXITED, 3)

    play(scenario)
