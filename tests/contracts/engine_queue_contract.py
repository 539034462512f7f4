"""Engines that queue and place tasks themselves: one node, gangs as a whole, what the engine has chosen."""

from __future__ import annotations

import asyncio

import pytest

from holdfast.core.attempt import ObservedState
from holdfast.core.scheduling.placement import Node
from holdfast.engines.base import Engine

from .engine_rig import FOREVER, EngineHarness, Rig, read_all

GANG = ("a", "b")
WAITS = (ObservedState.QUEUED, ObservedState.STARTING)


class QueueContract(EngineHarness):
    def need_queue(self, engine: Engine) -> Node:
        (node, *others) = engine.list_nodes()
        if node.queue_limit is None:
            pytest.skip(f"{engine.name} leaves placement to the server")
        assert not others
        return node

    def test_the_queue_has_a_limit(self) -> None:
        async def scenario(rig: Rig) -> None:
            node = self.need_queue(rig.engine)
            assert node.queue_limit is not None
            assert node.queue_limit > 0

        self.play(scenario)

    def test_the_machine_and_the_ports_are_told(self) -> None:
        async def scenario(rig: Rig) -> None:
            self.need_queue(rig.engine)
            await rig.start_and_wait_for(b"up", "a", FOREVER, port_counts={"web": 2, "ssh": 1})
            seen = await rig.look("a")
            assert seen.node
            assert {label: len(numbers) for label, numbers in seen.ports.items()} == {"web": 2, "ssh": 1}
            assert len({port for numbers in seen.ports.values() for port in numbers}) == 3
            await rig.reopen()
            again = await rig.look("a")
            assert (again.node, again.gpus, again.ports) == (seen.node, seen.gpus, seen.ports)

        self.play(scenario)

    def test_a_gang_starts_when_its_last_task_was_passed(self) -> None:
        async def scenario(rig: Rig) -> None:
            self.need_queue(rig.engine)
            for _ in range(2):  # a second start changes nothing
                assert (await rig.engine.start(rig.launch("a", FOREVER, gang=GANG))).seen in WAITS
                assert (await rig.look("a")).seen in WAITS
            assert (await rig.look("b")).seen is ObservedState.ABSENT
            await asyncio.gather(rig.start_and_wait_for(b"up", "b", FOREVER, gang=GANG), rig.wait_until_running("a"))
            assert (await rig.look("a")).seen is ObservedState.RUNNING

        self.play(scenario)

    def test_a_gang_that_is_not_complete_is_absent_after_a_restart(self) -> None:
        async def scenario(rig: Rig) -> None:
            self.need_queue(rig.engine)
            assert (await rig.engine.start(rig.launch("a", FOREVER, gang=GANG))).seen in WAITS
            await rig.reopen()
            assert (await rig.look("a")).seen is ObservedState.ABSENT
            assert (await rig.engine.start(rig.launch("b", FOREVER, gang=GANG))).seen in WAITS
            await rig.start_and_wait_for(b"up", "a", FOREVER, gang=GANG)
            await rig.wait_until_running("b")
            await rig.reopen()
            assert [(await rig.look(id)).seen for id in GANG] == [ObservedState.RUNNING] * 2
            assert await read_all(rig.log("a")) == b"up\n"

        self.play(scenario)

    def test_a_task_that_waits_for_its_gang_can_be_stopped(self) -> None:
        async def scenario(rig: Rig) -> None:
            self.need_queue(rig.engine)
            await rig.engine.start(rig.launch("a", FOREVER, gang=GANG))
            await rig.engine.stop("a", 0)
            while (seen := await rig.look("a")).seen.alive:
                await asyncio.sleep(0.005)
            assert seen.started_at is None
            assert seen.seen is ObservedState.ABSENT or seen.seen.final

        self.play(scenario)
