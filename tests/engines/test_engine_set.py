"""Several engines as one: each call reaches the right one, and no engine disturbs another."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from holdfast.core.attempt import ObservedState
from holdfast.core.conditions import Condition, ConditionKind
from holdfast.core.errors import EngineError
from holdfast.core.job import GIB
from holdfast.core.scheduling.placement import Node
from holdfast.engines import engine_set
from holdfast.engines.base import LogStream
from holdfast.engines.engine_set import EngineSet
from tests.contracts.engine_contract import launch, read_all
from tests.fake_engine import FakeEngine, FakeMachine, Faults

BLOCKED = Condition(kind=ConditionKind.ENGINE, message="Jobs stay pending.", blocks_starts=True)


class Away(Faults):
    """Its machine is away, or does not answer."""

    def __init__(self) -> None:
        self.away = self.hangs = False

    async def before_call(self, call: str, attempt_id: str) -> None:
        if self.hangs:
            await asyncio.sleep(1000)
        if self.away:
            raise EngineError("the machine is away")


class Pair:
    def __init__(self, **options: Any) -> None:
        self.faults = Away()
        self.near = FakeEngine(name="near", nodes=[Node(name="here", cpu=4, memory=8 * GIB)])
        self.far = FakeEngine(name="far", nodes=[Node(name="there", cpu=64, memory=8 * GIB)], faults=self.faults)
        self.engines = EngineSet([self.near, self.far], **options)
        self.health_changes = 0

    async def start(self, attempt_id: str, script: str, engine: str) -> None:
        await self.engines.start(launch(attempt_id, script, engine=engine))

    async def look(self, *ids: str) -> list[ObservedState]:
        found = await self.engines.observe(ids)
        return [found[id].seen for id in ids]

    def count(self) -> None:
        self.health_changes += 1


def play(scenario: Callable[[Pair], Awaitable[None]], **options: Any) -> None:
    async def go() -> None:
        pair = Pair(**options)
        await pair.engines.open(lambda _: None, pair.count)
        try:
            async with asyncio.timeout(60):
                await scenario(pair)
        finally:
            await pair.engines.close()

    asyncio.run(go())


def test_each_call_reaches_the_engine_of_the_attempt() -> None:
    async def scenario(pair: Pair) -> None:
        await pair.start("a", "echo near\nsleep 600", "near")
        await pair.start("b", "echo far\nsleep 600", "far")
        assert list(pair.near.machine.tasks) == ["a"]
        assert list(pair.far.machine.tasks) == ["b"]
        assert await pair.look("a", "b") == [ObservedState.RUNNING] * 2
        for id, text in (("a", b"near\n"), ("b", b"far\n")):
            log = pair.engines.open_log(id, LogStream.STDOUT)
            assert log is not None
            assert await read_all(log) == text
        await pair.engines.stop("b", 5)
        assert pair.far.machine.stops == [("b", 5)]
        assert pair.near.machine.stops == []
        assert sorted(await pair.engines.list_attempts()) == ["a", "b"]

    play(scenario)


def test_an_attempt_without_an_engine_is_one_of_the_default_engine() -> None:
    async def scenario(pair: Pair) -> None:
        await pair.start("a", "sleep 600", "")
        assert list(pair.near.machine.tasks) == ["a"]

    play(scenario)


def test_the_logs_of_a_removed_attempt_are_found_where_they_are() -> None:
    async def scenario(pair: Pair) -> None:
        await pair.start("b", "echo far", "far")
        while await pair.look("b") != [ObservedState.EXITED]:
            await asyncio.sleep(0.001)
        await pair.engines.remove("b")
        log = pair.engines.open_log("b", LogStream.STDOUT)
        assert log is not None
        assert await read_all(log) == b"far\n"
        await pair.engines.remove_logs("b")
        assert pair.engines.open_log("b", LogStream.STDOUT) is None

    play(scenario)


def test_after_a_restart_attempts_are_found_by_the_engine_that_was_saved() -> None:
    async def scenario(pair: Pair) -> None:
        await pair.start("b", "sleep 600", "far")
        again = EngineSet([pair.near, pair.far])
        again.assign_attempts({"b": "far", "never": "far"})
        assert (await again.observe(["b"]))["b"].seen is ObservedState.RUNNING
        await again.stop("never", 0)
        assert pair.near.machine.stops == []

    play(scenario)


@pytest.mark.parametrize("fault", ["away", "hangs"])
def test_only_the_tasks_of_an_engine_that_is_away_are_unreachable(fault: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engine_set, "OBSERVE_TIMEOUT", 0.05)

    async def scenario(pair: Pair) -> None:
        await pair.start("a", "sleep 600", "near")
        await pair.start("b", "sleep 600", "far")
        setattr(pair.faults, fault, True)
        assert await pair.look("a", "b") == [ObservedState.RUNNING, ObservedState.UNREACHABLE]
        setattr(pair.faults, fault, False)
        assert await pair.look("a", "b") == [ObservedState.RUNNING] * 2

    play(scenario)


def test_tasks_of_an_engine_that_is_not_configured_are_unreachable_and_not_absent() -> None:
    async def scenario(pair: Pair) -> None:
        pair.engines.assign_attempts({"c": "elsewhere"})
        assert await pair.look("c") == [ObservedState.UNREACHABLE]
        with pytest.raises(EngineError, match="elsewhere is not configured"):
            await pair.engines.stop("c", 0)
        assert pair.engines.open_log("c", LogStream.STDOUT) is None
        assert not pair.engines.supports_exec("c")

    play(scenario)


def test_nodes_know_their_engines_and_those_of_one_machine_are_one() -> None:
    async def scenario(pair: Pair) -> None:
        assert {node.name: dict(node.engines) for node in pair.engines.list_nodes()} == {
            "here": {"near": ""},
            "there": {"far": ""},
        }
        pair.far.set_nodes([Node(name="here", cpu=4, memory=8 * GIB)])
        (node,) = pair.engines.list_nodes()
        assert dict(node.engines) == {"near": "", "far": ""}
        assert pair.health_changes == 1

    play(scenario)


def test_other_engines_that_jobs_can_choose_are_named() -> None:
    async def scenario(pair: Pair) -> None:
        (note,) = pair.engines.get_health().notes
        assert note.startswith("Jobs can also use the engine far")

    play(scenario)


def test_an_engine_that_cannot_start_tasks_does_not_block_the_others() -> None:
    async def scenario(pair: Pair) -> None:
        pair.far.set_conditions(BLOCKED)
        nodes = {node.name: node for node in pair.engines.list_nodes()}
        assert nodes["here"].is_available("near")
        assert nodes["there"].belongs_to("far")
        assert not nodes["there"].is_available("far")
        health = pair.engines.get_health()
        (condition,) = health.conditions
        assert (condition.engine, condition.blocks_starts) == ("far", False)
        assert condition.message == "Jobs stay pending. Jobs on other engines are not affected."
        assert not any("can also use" in note for note in health.notes)
        pair.near.set_conditions(BLOCKED)
        assert [each.blocks_starts for each in pair.engines.get_health().conditions] == [True, True]

    play(scenario)


def test_an_engine_that_was_removed_from_the_settings_keeps_its_tasks_and_gets_no_new_ones() -> None:
    async def scenario(pair: Pair) -> None:
        await pair.start("b", "sleep 600", "far")
        assert pair.engines.names == ["near"]
        assert await pair.look("b") == [ObservedState.RUNNING]
        (there,) = [node for node in pair.engines.list_nodes() if node.name == "there"]
        assert not there.is_available("far")
        assert "takes no new tasks" in there.engines["far"]
        await pair.engines.stop("b", 0)
        assert pair.far.machine.stops == [("b", 0)]

    play(scenario, retired=["far"])


def test_the_health_of_others_is_told() -> None:
    async def scenario(pair: Pair) -> None:
        health = pair.engines.get_health()
        assert health.name == "near"
        assert any("also use the engine far" in note for note in health.notes)

    play(scenario)


def test_one_engine_is_wrapped_and_stays_what_it_is() -> None:
    engine = FakeEngine(FakeMachine())
    engines = EngineSet.wrap(engine)
    assert EngineSet.wrap(engines) is engines
    assert engines.list_nodes() is engine.list_nodes()
    assert engines.get_engine("") is engine
