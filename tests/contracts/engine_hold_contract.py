"""Held tasks, and sessions in ended ones."""

from __future__ import annotations

import pytest

from holdfast.core.attempt import ObservedState
from holdfast.engines.base import ExecRefused, LogStream
from tests.engines.sessions import inside

from .engine_rig import EngineHarness, Rig, read_all, without_figures


class HoldContract(EngineHarness):
    def test_a_failed_one_that_is_to_be_held_stands_still(self) -> None:
        async def scenario(rig: Rig) -> None:
            held = await rig.run("kept", "echo before; exit 3", hold=True)
            assert (held.seen, held.code, held.oom) == (ObservedState.HELD, 3, False)
            await rig.engine.append_log("kept", "held", "kept for you\n")
            await rig.engine.append_log("kept", "held", "kept for you\n")
            await rig.reopen()
            again = (await rig.engine.observe(["kept"]))["kept"]
            assert (again.seen, again.code) == (ObservedState.HELD, 3)
            await rig.engine.append_log("kept", "held", "kept for you\n")
            source = rig.engine.open_log("kept", LogStream.STDOUT)
            assert source is not None
            assert not await source.is_complete()
            assert await source.read(0, 1000) == b"before\nkept for you\n"
            await rig.engine.remove("kept")  # it is there: nothing happens
            assert (await rig.stop_held("kept")).seen is ObservedState.EXITED

        self.play(scenario)

    def test_an_announcement_follows_all_output_of_the_task(self) -> None:
        self.need_programs()

        async def scenario(rig: Rig) -> None:
            for attempt_id, write in (("a", "echo"), ("b", "printf")):
                held = await rig.run(attempt_id, f"echo out; {write} err >&2; exit 3", hold=True)
                assert held.seen is ObservedState.HELD
                await rig.engine.append_log(attempt_id, "held", "kept for you\n")
                assert await rig.log(attempt_id, LogStream.MERGED).read(0, 1000) == b"out\nerr\nkept for you\n"
                await rig.stop_held(attempt_id)

        self.play(scenario)

    def test_success_is_not_held(self) -> None:
        async def scenario(rig: Rig) -> None:
            ended = await rig.run("fine", "echo fine", hold=True)
            assert (ended.seen, ended.code) == (ObservedState.EXITED, 0)

        self.play(scenario)

    def test_one_that_is_being_stopped_is_not_held(self) -> None:
        async def scenario(rig: Rig) -> None:
            await rig.start_and_wait_for(b"here", "stopped", "echo here; sleep 1000", hold=True)
            await rig.engine.stop("stopped", 30)
            assert (await rig.end_of("stopped")).seen is ObservedState.EXITED

        self.play(scenario)

    def test_a_held_task_ends_with_its_own_exit_code(self) -> None:
        self.need_programs()

        async def scenario(rig: Rig) -> None:
            assert (await rig.run("a", "echo mine >~/file\nexit 3", hold=True)).seen is ObservedState.HELD
            ended = await rig.stop_held("a")
            assert (ended.seen, ended.code) == (ObservedState.EXITED, 3)
            assert (await rig.run("killed", "exit 3", hold=True)).seen is ObservedState.HELD
            assert (await rig.stop_held("killed", 0)).seen is ObservedState.EXITED

        self.play(scenario)

    def test_sessions_run_in_a_held_task_also_after_a_restart(self) -> None:
        async def scenario(rig: Rig) -> None:
            self.need_exec(rig.engine)
            script = 'echo mine >"$HOME/file"\nexit 3'
            assert (await rig.run("a", script, hold=True, env={"COLOUR": "green"})).seen is ObservedState.HELD
            for _ in range(2):
                said = await inside(rig.engine, "a", 'cat "$HOME/file"; echo "$COLOUR"')
                assert said == (0, "mine\ngreen\n", "")
                await rig.reopen()
                assert (await rig.look("a")).seen is ObservedState.HELD

        self.play(scenario)

    # --- sessions in ended tasks --------------------------------------------------------------------------------------

    def test_an_ended_task_is_revived_with_its_files(self) -> None:
        async def scenario(rig: Rig) -> None:
            engine = self.need_exec(rig.engine)
            given = {"env": {"COLOUR": "green"}, "script": 'echo mine >"$HOME/file"\necho said\nexit 3'}
            ended = await rig.run("a", **given)
            with pytest.raises(ExecRefused):
                await inside(rig.engine, "a", "true")
            for _ in range(2):
                await engine.revive_task(rig.launch("a", **given))
            said = await inside(rig.engine, "a", 'cat "$HOME/file"; echo "$COLOUR"; echo more >>"$HOME/file"')
            assert said == (0, "mine\ngreen\n", "")
            assert without_figures(await rig.look("a")) == without_figures(ended)
            assert await read_all(rig.log("a")) == b"said\n"
            await rig.engine.stop("a", 0)
            with pytest.raises(ExecRefused):
                await inside(rig.engine, "a", "true")
            await rig.engine.remove("a")
            with pytest.raises(ExecRefused):
                await engine.revive_task(rig.launch("a", **given))

        self.play(scenario)

    def test_a_task_that_never_ran_is_not_revived(self) -> None:
        async def scenario(rig: Rig) -> None:
            engine = self.need_exec(rig.engine)
            with pytest.raises(ExecRefused):
                await engine.revive_task(rig.launch("never", "true"))
            assert (await rig.look("never")).seen is ObservedState.ABSENT

        self.play(scenario)
