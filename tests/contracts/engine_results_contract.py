"""What a task leaves and uses: artifacts and metrics."""

from __future__ import annotations

import asyncio

import pytest

from holdfast.core.attempt import ObservedState
from holdfast.engines.artifacts import SupportsArtifacts
from holdfast.engines.base import SupportsMetrics

from .engine_rig import EngineHarness, Rig, collect, sweep


class ResultsContract(EngineHarness):
    # --- artifacts ----------------------------------------------------------------------------------------------------

    @pytest.mark.parametrize(("last", "code"), [("exit 0", 0), ("exit 3", 3), ("kill -9 $$", 137)])
    def test_artifacts_are_there_after_any_end_until_it_is_removed(self, last: str, code: int) -> None:
        script = f"""
            mkdir -p ~/artifacts
            echo one > ~/artifacts/b
            echo two > ~/artifacts/a
            echo no > ~/artifacts/.hidden
            {last}
        """

        async def scenario(rig: Rig) -> None:
            if not isinstance(rig.engine, SupportsArtifacts):
                pytest.skip(f"{rig.engine.name} keeps no artifacts")
            seen = await rig.run("a", script)
            assert (seen.seen, seen.code, seen.artifacts) == (ObservedState.EXITED, code, True)
            for _ in range(2):
                found = collect(rig.engine, "a")
                assert list(found.files.items()) == [(b"a", b"two\n"), (b"b", b"one\n")]
                await rig.reopen()
                assert (await rig.look("a")).artifacts
            await sweep(rig.engine, ["a"])
            assert collect(rig.engine, "a").files
            await rig.engine.remove("a")
            assert not collect(rig.engine, "a").files

        self.play(scenario)

    def test_a_task_that_leaves_none_says_so(self) -> None:
        async def scenario(rig: Rig) -> None:
            if not isinstance(rig.engine, SupportsArtifacts):
                pytest.skip(f"{rig.engine.name} keeps no artifacts")
            assert not (await rig.run("a", "echo hello")).artifacts
            assert not collect(rig.engine, "a").files
            assert not collect(rig.engine, "unknown").files

        self.play(scenario)

    # --- metrics ------------------------------------------------------------------------------------------------------

    def test_what_runs_or_is_held_is_measured_and_nothing_else(self) -> None:
        async def scenario(rig: Rig) -> None:
            if not isinstance(rig.engine, SupportsMetrics):
                pytest.skip("this engine does not measure")
            await rig.start_and_wait_for(b"up", "runs", "echo up\nsleep 600")
            await rig.run("held", "exit 3", hold=True)
            await rig.run("ended", "exit 0")
            for name in ("runs", "held", "ended"):
                self.use(rig.engine, name)
            everyone = ["runs", "held", "ended", "never", "../odd"]
            first = await rig.engine.measure_tasks(everyone)
            assert set(first) == {"runs", "held"}
            assert all(reading.processes > 0 for reading in first.values())
            again = await rig.engine.measure_tasks(everyone)
            assert again["runs"].at >= first["runs"].at
            assert again["runs"].cpu >= first["runs"].cpu
            assert await rig.engine.measure_tasks([]) == {}
            await rig.reopen()
            assert isinstance(rig.engine, SupportsMetrics)
            await rig.engine.observe(everyone)
            later = await rig.engine.measure_tasks(everyone)
            assert set(later) == {"runs", "held"}
            assert later["runs"].cpu >= first["runs"].cpu

        self.play(scenario)

    def test_processor_time_and_memory_are_counted(self) -> None:
        self.need_programs()
        busy = "i=0; while [ $i -lt 40000 ]; do i=$((i+1)); done; echo up; sleep 600"

        async def scenario(rig: Rig) -> None:
            if not isinstance(rig.engine, SupportsMetrics):
                pytest.skip(f"{rig.engine.name} does not measure")
            await rig.start_and_wait_for(b"up", "busy", busy)
            reading = (await rig.engine.measure_tasks(["busy"])).get("busy")
            while reading is None or reading.cpu <= 0.01:  # seconds; some engines measure at intervals
                await asyncio.sleep(0.05)
                reading = (await rig.engine.measure_tasks(["busy"])).get("busy")
            assert reading.memory > 0
            await rig.engine.stop("busy", 0)
            used = (await rig.end_of("busy")).used
            assert used is not None
            assert used.cpu >= reading.cpu

        self.play(scenario)
