"""Kills, unreachable spells, changes from outside, several servers."""

from __future__ import annotations

import asyncio
import os
import random
import signal
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

import pytest

from holdfast.core.attempt import Observation, ObservedState
from holdfast.core.errors import EngineError
from holdfast.core.exits.exit import Cause
from holdfast.core.job import Mount
from holdfast.core.volumes import HostFolder
from holdfast.engines.base import LaunchSpec, LogStream

from .engine_rig import BEFORE_THE_END, FOREVER, TIMEOUT, EngineHarness, Rig, read_all, sweep, without_figures

TASKS = 6
SERVER_KILLS = 5
DAEMON_KILLS = 3


def make_counting_tasks(rig: Rig, shared: Path) -> list[LaunchSpec]:
    """Tasks with different exit codes. Each run adds a line to a file outside."""
    mounts = (Mount(volume=HostFolder(str(shared)), target=str(shared), read_only=False),)
    return [
        rig.launch(f"t{n}", f"echo {n} >>{shared}/ran\necho out {n}\nsleep 0.2\nexit {n}", mounts=mounts)
        for n in range(TASKS)
    ]


async def start_persistently(rig: Rig, launch: LaunchSpec) -> Observation:
    """Start it as the controller does: again after each error, and when the engine has forgotten it, with the same
    launch; then wait for its end."""
    while True:
        with suppress(EngineError):
            seen = await rig.engine.start(launch)
            ended = await rig.end_of(launch.attempt_id) if seen.seen.alive else seen
            if ended.seen is not ObservedState.ABSENT:
                return ended
            rig.told.remove(ended)
        await asyncio.sleep(0.05)


async def look_persistently(rig: Rig, attempt_id: str) -> Observation:
    """Look until the engine can see."""
    while True:
        with suppress(EngineError):
            seen = await rig.look(attempt_id)
            if seen.seen is not ObservedState.UNREACHABLE:
                return seen
        await asyncio.sleep(0.05)


class FaultsContract(EngineHarness):
    # --- kills --------------------------------------------------------------------------------------------------------

    @pytest.mark.release
    def test_a_server_killed_at_any_moment_runs_every_task_once(self, tmp_path: Path) -> None:
        self.need_programs()
        (tmp_path / "shared").mkdir()

        async def scenario(rig: Rig) -> None:
            launches = make_counting_tasks(rig, tmp_path / "shared")
            await rig.engine.close()
            for _ in range(SERVER_KILLS):
                await asyncio.to_thread(self._run_killed_server, launches)
            await rig.open()
            await self._check_counting_tasks(rig, launches, tmp_path / "shared")

        self.play(scenario)

    def _run_killed_server(self, launches: Sequence[LaunchSpec]) -> None:
        """Start the tasks in another process, which is killed meanwhile."""
        ready, writes = os.pipe()
        pid = os.fork()
        if pid == 0:
            try:
                asyncio.run(self._start_all(launches, writes))
            finally:
                os._exit(1)
        os.close(writes)
        os.read(ready, 1)
        os.close(ready)
        time.sleep(random.uniform(0, 0.3))  # the moment is the test's input, nothing waits for it
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)

    async def _start_all(self, launches: Sequence[LaunchSpec], ready: int) -> None:
        engine = self.make()
        await engine.open(lambda _: None)
        os.write(ready, b"x")
        await asyncio.gather(*map(engine.start, launches))
        await asyncio.sleep(TIMEOUT)

    @pytest.mark.release
    def test_a_daemon_killed_at_any_moment_runs_every_task_once(self, tmp_path: Path) -> None:
        self.need_programs()
        (tmp_path / "shared").mkdir()

        async def scenario(rig: Rig) -> None:
            launches = make_counting_tasks(rig, tmp_path / "shared")
            ends = asyncio.gather(*(start_persistently(rig, launch) for launch in launches))
            for _ in range(DAEMON_KILLS):
                await asyncio.sleep(random.uniform(0, 0.3))  # the moment is the test's input
                await asyncio.to_thread(self.kill_daemon)
                await asyncio.to_thread(self.start_daemon)
            await ends
            await self._check_counting_tasks(rig, launches, tmp_path / "shared")

        self.play(scenario)

    async def _check_counting_tasks(self, rig: Rig, launches: Sequence[LaunchSpec], shared: Path) -> None:
        ends = await asyncio.gather(*(start_persistently(rig, launch) for launch in launches))
        assert [(end.seen, end.code) for end in ends] == [(ObservedState.EXITED, n) for n in range(TASKS)], ends
        assert sorted((shared / "ran").read_text().split()) == [str(n) for n in range(TASKS)]
        for n in range(TASKS):
            assert await read_all(rig.log(f"t{n}", LogStream.MERGED)) == f"out {n}\n".encode()

    # --- unreachable spells -------------------------------------------------------------------------------------------

    def test_nothing_is_taken_for_absent_or_lost_while_the_engine_cannot_look(self) -> None:
        async def scenario(rig: Rig) -> None:
            await rig.start_and_wait_for(b"up", "stays", FOREVER)
            await rig.run("over", "echo over\nexit 3")
            await asyncio.to_thread(self.kill_daemon)
            try:
                await self._check_unreachable(rig)
                await rig.reopen()  # a server that starts now
                await self._check_unreachable(rig)
            finally:
                await asyncio.to_thread(self.start_daemon)
            assert (await look_persistently(rig, "stays")).seen is ObservedState.RUNNING
            assert (await look_persistently(rig, "over")).code == 3
            assert (await look_persistently(rig, "never")).seen is ObservedState.ABSENT
            ended = await start_persistently(rig, rig.launch("new", "echo new"))
            assert (ended.seen, ended.code) == (ObservedState.EXITED, 0)
            assert await read_all(rig.log("new")) == b"new\n"
            assert await read_all(rig.log("stays")) == b"up\n"
            await rig.engine.stop("stays", TIMEOUT)
            assert (await rig.end_of("stays")).code == 143

        self.play(scenario)

    async def _check_unreachable(self, rig: Rig) -> None:
        for attempt_id in ("stays", "over", "never"):
            with suppress(EngineError):
                seen = await rig.look(attempt_id)
                assert seen.seen not in (ObservedState.ABSENT, ObservedState.LOST), seen
        with suppress(EngineError):
            seen = await rig.engine.start(rig.launch("new", "echo new"))
            waits = seen.seen in (ObservedState.UNREACHABLE, ObservedState.QUEUED, ObservedState.STARTING)
            assert waits or (seen.seen is ObservedState.REFUSED and seen.transient), seen
        with suppress(EngineError):
            await rig.engine.remove("stays")
        with suppress(EngineError):
            assert {"stays", "over"} <= set(await rig.engine.list_attempts())
        await rig.engine.list_images()  # jobs are submitted all the same
        assert await read_all(rig.log("stays")) == b"up\n"

    def test_an_end_during_an_unreachable_spell_is_reported_afterwards(self) -> None:
        self.need_programs()

        async def scenario(rig: Rig) -> None:
            script = "echo up; until [ -e ~/go ]; do sleep 0.05; done; seq 100000; exit 6"
            await rig.start_and_wait_for(b"up", "a", script)
            await asyncio.to_thread(self.kill_daemon)
            try:
                self.create_file("a", "go")
                log = rig.log("a")
                while await log.get_size() < 3 + 588895:  # it goes on without the daemon
                    await log.wait_for_growth(await log.get_size(), 1)
            finally:
                await asyncio.to_thread(self.start_daemon)
            ended = await rig.end_of("a")
            assert (ended.seen, ended.code) == (ObservedState.EXITED, 6)

        self.play(scenario)

    # --- changes from outside -----------------------------------------------------------------------------------------

    def test_a_task_removed_by_hand_is_lost_and_not_started_again(self) -> None:
        async def scenario(rig: Rig) -> None:
            await rig.start_and_wait_for(b"up", "a", FOREVER)
            self.remove_by_hand(rig, "a")
            seen = await rig.end_of("a")
            assert (seen.seen, seen.code, seen.cause) == (ObservedState.LOST, None, Cause.LOST)
            assert seen.message
            await rig.reopen()
            assert (await rig.look("a")).seen is ObservedState.LOST
            assert (await rig.engine.start(rig.launch("a", FOREVER))).seen is ObservedState.LOST
            assert await read_all(rig.log("a")) == b"up\n"
            await rig.engine.remove("a")
            assert await rig.engine.list_attempts() == []

        self.play(scenario)

    def test_a_task_removed_by_hand_while_no_server_ran_is_lost(self) -> None:
        async def scenario(rig: Rig) -> None:
            await rig.start_and_wait_for(b"up", "a", FOREVER)
            await rig.engine.close()
            self.remove_by_hand(rig, "a")
            rig.told.clear()
            await rig.open()
            seen = await rig.look("a")
            if seen.seen is ObservedState.RUNNING:  # the kernel still removes its processes
                seen = await rig.end_of("a")
            assert (seen.seen, seen.cause) == (ObservedState.LOST, Cause.LOST)

        self.play(scenario)

    def test_a_task_whose_folder_was_deleted_is_stopped_and_removed(self) -> None:
        async def scenario(rig: Rig) -> None:
            await rig.start_and_wait_for(b"up", "a", FOREVER)
            self.delete_folder_by_hand("a")
            await rig.engine.stop("a", 0)
            while (await rig.look("a")).seen.alive:
                await asyncio.sleep(0.02)
            await sweep(rig.engine)
            assert await rig.engine.list_attempts() == []
            assert (await rig.run("b", "echo b")).code == 0

        self.play(scenario)

    # --- several servers ----------------------------------------------------------------------------------------------

    def test_two_installations_leave_each_others_tasks_alone(self) -> None:
        async def scenario(rig: Rig) -> None:
            other = self.make_other_installation()
            await other.open(lambda _: None)
            try:
                await rig.start_and_wait_for(b"up", "a", FOREVER)
                assert (await other.observe(["a"]))["a"].seen is ObservedState.ABSENT
                assert await other.list_attempts() == []
                assert other.open_log("a", LogStream.STDOUT) is None
                await other.stop("a", 0)
                await other.remove("a")
                assert (await rig.look("a")).seen is ObservedState.RUNNING
                assert (await other.start(rig.launch("a", FOREVER))).seen in BEFORE_THE_END
                await rig.run("b", "echo b\nexit 3")
                await sweep(other)
                assert (await rig.look("a")).seen is ObservedState.RUNNING
                assert (await rig.look("b")).code == 3
                assert set(await rig.engine.list_attempts()) == {"a", "b"}
                assert (await other.observe(["a"]))["a"].seen is ObservedState.EXITED
            finally:
                await other.close()

        self.play(scenario)

    def test_two_servers_of_an_installation_see_the_same(self) -> None:
        async def scenario(rig: Rig) -> None:
            other = await rig.another()
            await rig.start_and_wait_for(b"up", "a", FOREVER)
            assert (await other.observe(["a"]))["a"].seen is ObservedState.RUNNING
            await other.stop("a", TIMEOUT)
            ended = await rig.end_of("a")
            assert ended.code == 143
            seen = (await other.observe(["a"]))["a"]
            assert without_figures(seen) == without_figures(await rig.look("a"))
            await asyncio.gather(rig.engine.remove("a"), other.remove("a"))
            assert await rig.engine.list_attempts() == await other.list_attempts() == []
            assert (await rig.look("a")).code == (await other.observe(["a"]))["a"].code == 143

        self.play(scenario)

    def test_two_servers_that_start_the_same_start_it_once(self) -> None:
        async def scenario(rig: Rig) -> None:
            other = await rig.another()
            for number in range(10):
                work = rig.launch(f"a{number}", "echo once\nsleep 600")
                seen = await asyncio.gather(rig.engine.start(work), other.start(work))
                assert all(each.seen in BEFORE_THE_END for each in seen), seen
            for number in range(10):
                await rig.wait_until_running(f"a{number}")
                log = rig.log(f"a{number}")
                await log.wait_for_growth(0, TIMEOUT)
                await rig.engine.stop(f"a{number}", 0)
                await rig.end_of(f"a{number}")
                assert await read_all(log) == b"once\n"

        self.play(scenario)
