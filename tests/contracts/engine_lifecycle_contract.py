"""Starting, ending, stopping, restarts of the server, cleaning up."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta

import pytest

from holdfast.core.attempt import ObservedState
from holdfast.engines.base import LogStream

from .engine_rig import BEFORE_THE_END, TIMEOUT, EngineHarness, Rig, read_all, sweep, without_figures


class LifecycleContract(EngineHarness):
    # --- starting and ending ------------------------------------------------------------------------------------------

    @pytest.mark.parametrize(("script", "code"), [("exit 0", 0), ("exit 3", 3), ("kill -9 $$", 137)])
    def test_the_exit_code_is_the_programs_own(self, script: str, code: int) -> None:
        async def scenario(rig: Rig) -> None:
            seen = await rig.run("a", script)
            assert (seen.seen, seen.code, seen.oom) == (ObservedState.EXITED, code, False)
            assert (await rig.look("a")).code == code

        self.play(scenario)

    def test_an_entry_runs_in_place_of_the_script_and_is_given_it(self) -> None:
        async def scenario(rig: Rig) -> None:
            seen = await rig.run("a", "echo mine\nexit 4", entry='sh "$1"')
            assert (seen.seen, seen.code) == (ObservedState.EXITED, 4)
            assert await read_all(rig.log("a")) == b"mine\n"

        self.play(scenario)

    def test_times_are_told_and_stay_the_same(self) -> None:
        async def scenario(rig: Rig) -> None:
            before = datetime.now(UTC) - timedelta(milliseconds=1)
            await rig.start_and_wait_for(b"up", "a", "echo up\nsleep 600")
            started = await rig.look("a")
            assert started.started_at is not None
            assert before <= started.started_at <= datetime.now(UTC)
            await rig.engine.stop("a", 0)
            ended = await rig.end_of("a")
            assert ended.started_at == started.started_at
            assert ended.finished_at is not None
            assert ended.finished_at >= ended.started_at
            assert ended.elapsed is not None
            assert ended.elapsed >= 0
            await rig.reopen()
            assert without_figures(await rig.look("a")) == without_figures(ended)

        self.play(scenario)

    def test_what_never_started_is_absent(self) -> None:
        async def scenario(rig: Rig) -> None:
            assert await rig.engine.observe([]) == {}
            assert (await rig.look("never")).seen is ObservedState.ABSENT
            assert rig.engine.open_log("never", LogStream.STDOUT) is None

        self.play(scenario)

    def test_an_unknown_image_is_refused_and_leaves_nothing(self) -> None:
        async def scenario(rig: Rig) -> None:
            seen = await rig.run("a", "exit 0", image="no/such:image")
            assert (seen.seen, seen.transient, seen.cause) == (ObservedState.REFUSED, False, "image-missing")
            assert "no/such:image" in seen.message
            assert rig.image in seen.message
            assert (await rig.look("a")).seen is ObservedState.ABSENT
            assert rig.engine.open_log("a", LogStream.STDOUT) is None
            assert (await rig.run("a", "exit 0")).code == 0  # the same id may be used once it can run

        self.play(scenario)

    @pytest.mark.release_after(3)
    @pytest.mark.parametrize("name", ["../a", "a/b", "", ".", "..", "a\0b", "a\nb", "x" * 300, "-rf"])
    def test_names_that_are_no_file_names_are_refused(self, name: str) -> None:
        async def scenario(rig: Rig) -> None:
            assert (await rig.engine.start(rig.launch(name, "exit 0"))).seen is ObservedState.REFUSED
            assert (await rig.look(name)).seen is ObservedState.ABSENT
            assert rig.engine.open_log(name, LogStream.STDOUT) is None
            await rig.engine.stop(name, 0)
            await rig.engine.remove(name)
            await rig.engine.remove_logs(name)

        self.play(scenario)

    def test_names_that_are_odd_but_fine_are_taken(self) -> None:
        async def scenario(rig: Rig) -> None:
            assert (await rig.run("job~role_1.worker~0-1", "exit 4")).code == 4
            await rig.engine.remove_logs("job~role_1.worker~0-1")

        self.play(scenario)

    def test_a_task_that_does_not_run_at_once_says_why(self) -> None:
        async def scenario(rig: Rig) -> None:
            seen = await rig.engine.start(rig.launch("a", "exit 3"))
            if seen.seen not in (ObservedState.QUEUED, ObservedState.STARTING):
                pytest.skip(f"{rig.engine.name} starts tasks at once")
            assert seen.message
            assert seen.since is not None
            assert seen.code is None
            assert (await rig.end_of("a")).code == 3
            assert ObservedState.RUNNING in [each.seen for each in rig.told]  # the start is reported

        self.play(scenario)

    # --- once, and only once ------------------------------------------------------------------------------------------

    def test_starting_again_runs_nothing(self) -> None:
        async def scenario(rig: Rig) -> None:
            await rig.run("a", "echo once\nexit 5")
            for _ in range(2):
                again = await rig.engine.start(rig.launch("a", "echo once\nexit 5"))
                assert (again.seen, again.code) == (ObservedState.EXITED, 5)
                await rig.engine.remove("a")  # not even after it was removed
            assert await read_all(rig.log("a")) == b"once\n"

        self.play(scenario)

    def test_starting_what_runs_answers_that_it_runs(self) -> None:
        async def scenario(rig: Rig) -> None:
            await rig.start_and_wait_for(b"up", "a", "echo up\nsleep 600")
            assert (await rig.engine.start(rig.launch("a", "echo up\nsleep 600"))).seen is ObservedState.RUNNING
            assert await read_all(rig.log("a")) == b"up\n"

        self.play(scenario)

    # --- stopping -----------------------------------------------------------------------------------------------------

    def test_stop_ends_a_task_that_listens(self) -> None:
        async def scenario(rig: Rig) -> None:
            await rig.start_and_wait_for(b"up", "a", "echo up\nsleep 600")
            await rig.engine.stop("a", TIMEOUT * 10)
            assert (await rig.end_of("a")).code == 143

        self.play(scenario)

    def test_stop_kills_a_task_that_does_not_listen(self) -> None:
        async def scenario(rig: Rig) -> None:
            await rig.start_and_wait_for(b"up", "a", "trap '' TERM\necho up\nsleep 600")
            await rig.engine.stop("a", 0.2)
            assert (await rig.end_of("a")).code == 137

        self.play(scenario)

    def test_a_second_stop_can_only_shorten_the_grace(self) -> None:
        async def scenario(rig: Rig) -> None:
            await rig.start_and_wait_for(b"up", "a", "trap '' TERM\necho up\nsleep 600")
            await rig.engine.stop("a", TIMEOUT * 10)
            await rig.engine.stop("a", 0.1)
            await rig.engine.stop("a", TIMEOUT * 10)
            assert (await rig.end_of("a")).code == 137

        self.play(scenario)

    def test_stopping_what_does_not_run_is_harmless(self) -> None:
        async def scenario(rig: Rig) -> None:
            await rig.engine.stop("never", 1)
            await rig.run("a", "exit 4")
            await rig.engine.stop("a", 0)
            assert (await rig.look("a")).code == 4

        self.play(scenario)

    def test_a_task_can_be_stopped_the_moment_it_starts(self) -> None:
        async def scenario(rig: Rig) -> None:
            for number in range(8):  # at several moments of it
                await rig.engine.start(rig.launch(f"a{number}", "sleep 600"))
                await asyncio.sleep(number * 0.004)
                await rig.engine.stop(f"a{number}", TIMEOUT if number % 4 == 1 else 0)
            for number in range(8):
                ended = await rig.end_of(f"a{number}")
                assert (ended.seen, ended.code) == (ObservedState.EXITED, 143 if number % 4 == 1 else 137), ended

        self.play(scenario)

    # --- the server goes away and comes back --------------------------------------------------------------------------

    def test_a_new_server_takes_up_what_runs(self) -> None:
        async def scenario(rig: Rig) -> None:
            await rig.start_and_wait_for(b"up", "a", "echo up\nsleep 600")
            await rig.reopen()
            seen = await rig.look("a")
            assert seen.seen is ObservedState.RUNNING
            assert seen.elapsed is not None
            assert not await rig.log("a").is_complete()
            await rig.engine.stop("a", TIMEOUT)
            assert (await rig.end_of("a")).code == 143

        self.play(scenario)

    def test_a_new_server_learns_how_things_ended_meanwhile(self) -> None:
        async def scenario(rig: Rig) -> None:
            for number in range(5):
                await rig.engine.start(rig.launch(f"a{number}", f"echo {number}\nexit {number}"))
            await rig.reopen()
            for number in range(5):
                seen = await rig.look(f"a{number}")
                if seen.seen in BEFORE_THE_END:
                    seen = await rig.end_of(f"a{number}")
                assert (seen.seen, seen.code) == (ObservedState.EXITED, number), seen
                assert await read_all(rig.log(f"a{number}", LogStream.MERGED)) == f"{number}\n".encode()

        self.play(scenario)

    def test_a_new_server_can_start_by_stopping(self) -> None:
        async def scenario(rig: Rig) -> None:
            await rig.start_and_wait_for(b"up", "a", "echo up\nsleep 600")
            await rig.reopen()
            await rig.engine.stop("a", TIMEOUT)
            assert (await rig.end_of("a")).code == 143

        self.play(scenario)

    # --- cleaning up --------------------------------------------------------------------------------------------------

    def test_remove_keeps_the_logs_and_the_end(self) -> None:
        async def scenario(rig: Rig) -> None:
            ended = await rig.run("a", "echo kept\nexit 2")
            for _ in range(2):
                await rig.engine.remove("a")
                assert await read_all(rig.log("a")) == b"kept\n"
                assert without_figures(await rig.look("a")) == without_figures(ended)
            await rig.reopen()
            assert await read_all(rig.log("a", LogStream.MERGED)) == b"kept\n"
            for _ in range(2):
                await rig.engine.remove_logs("a")
                assert rig.engine.open_log("a", LogStream.STDOUT) is None

        self.play(scenario)

    def test_everything_that_was_not_removed_is_listed(self) -> None:
        async def scenario(rig: Rig) -> None:
            await rig.start_and_wait_for(b"up", "known", "echo up\nsleep 600")
            await rig.start_and_wait_for(b"up", "stray", "echo up\nsleep 600")
            await rig.run("over", "echo over")
            await rig.reopen()
            assert set(await rig.engine.list_attempts()) == {"known", "stray", "over"}
            assert set(await sweep(rig.engine, ["known"])) == {"stray", "over"}
            assert (await rig.look("known")).seen is ObservedState.RUNNING
            assert (await rig.look("stray")).seen is not ObservedState.RUNNING
            assert await read_all(rig.log("over")) == b"over\n"
            assert await rig.engine.list_attempts() == ["known"]

        self.play(scenario)

    def test_engines_describe_themselves(self) -> None:
        async def scenario(rig: Rig) -> None:
            health = rig.engine.get_health()
            assert health.name == rig.engine.name
            nodes = rig.engine.list_nodes()
            assert nodes
            assert all(node.cpu > 0 and node.memory > 0 and node.port_start < node.port_end for node in nodes)
            assert rig.image in {image.name for image in await rig.engine.list_images()}

        self.play(scenario)
