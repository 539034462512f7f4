"""For engines that signal processes themselves, which costs them little: they continue all that is being stopped."""

from __future__ import annotations

from .engine_rig import TIMEOUT, EngineHarness, Rig


class SelfStopContract(EngineHarness):
    def test_stop_continues_a_task_that_stops_itself_meanwhile(self) -> None:
        """As a held one may: it checks whether it is to end, and then stops itself."""

        async def scenario(rig: Rig) -> None:
            script = "trap 'sleep 0.5; kill -STOP $$; exit 7' TERM\necho up\nwhile :; do sleep 0.1; done"
            await rig.start_and_wait_for(b"up", "a", script)
            await rig.engine.stop("a", TIMEOUT * 10)
            assert (await rig.end_of("a")).code == 7

        self.play(scenario)
