"""The controller with several engines, and with nodes that come and go."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path

from holdfast.controller.loop import Controller
from holdfast.core.conditions import Condition, ConditionKind
from holdfast.core.job import GIB
from holdfast.core.records import Group
from holdfast.core.scheduling.placement import Node
from holdfast.core.states import JobState
from holdfast.engines.engine_set import EngineSet
from holdfast.store.database import Store
from holdfast.store.jobs import records as job_rows
from holdfast.store.vault import Vault
from tests.controller.test_loop import LIMITS, Place, a_job, run
from tests.fake_engine import FakeEngine, FakeMachine

LARGE = Node(name="there", cpu=16, memory=64 * GIB)
AWAY = Condition(kind=ConditionKind.ENGINE, message="The daemon does not respond.", blocks_starts=True)


class Cluster(Place):
    """Two engines: near, the default one, and far."""

    def __init__(self, home: Path, near: FakeMachine, far: FakeMachine, *, default: str, retired: list[str]) -> None:
        self.store = Store.open(f"sqlite:///{home / 'test.db'}", vault=Vault.open(home / "key"))
        self.near = FakeEngine(near, name="near", nodes=[Node(name="here", cpu=4, memory=16 * GIB)])
        self.far = FakeEngine(far, name="far", nodes=[LARGE])
        engines = [self.near, self.far] if default == "near" else [self.far, self.near]
        self.controller = Controller(
            self.store, EngineSet(engines, retired=retired), LIMITS, groups=[Group(name="default")]
        )

    async def node_of(self, job_id: str) -> tuple[str, str | None]:
        (task,) = (await self.until(job_id, JobState.RUNNING)).tasks
        return task.engine, task.node


@asynccontextmanager
async def cluster(
    home: Path,
    near: FakeMachine | None = None,
    far: FakeMachine | None = None,
    *,
    default: str = "near",
    retired: tuple[str, ...] = (),
) -> AsyncIterator[Cluster]:
    place = Cluster(home, near or FakeMachine(), far or FakeMachine(), default=default, retired=list(retired))
    await place.controller.recover()
    loop = asyncio.create_task(place.controller.run())
    try:
        yield place
    finally:
        loop.cancel()
        with suppress(asyncio.CancelledError):
            await loop
        await place.controller.close()
        await place.store.close()


def test_a_job_a_group_or_the_server_chooses_the_engine(tmp_path: Path) -> None:
    async def story() -> None:
        async with cluster(tmp_path) as place:
            assert await place.node_of(await place.submit(a_job())) == ("near", "here")
            assert await place.node_of(await place.submit(a_job(engine="far"))) == ("far", "there")
            place.controller.update_groups([Group(name="default", engine="far")])
            assert await place.node_of(await place.submit(a_job())) == ("far", "there")
            assert await place.node_of(await place.submit(a_job(engine="near"))) == ("near", "here")

    run(story)


def test_a_pending_job_follows_its_group_to_another_engine(tmp_path: Path) -> None:
    async def story() -> None:
        async with cluster(tmp_path) as place:
            first = await place.submit(a_job(cpu=4.0))
            await place.until(first, JobState.RUNNING)
            id = await place.submit(a_job(cpu=4.0))
            await place.reasons(id)
            place.controller.update_groups([Group(name="default", engine="far")])
            assert await place.node_of(id) == ("far", "there")

    run(story)


def test_a_live_task_stays_on_its_engine_when_settings_change(tmp_path: Path) -> None:
    async def story() -> None:
        near, far = FakeMachine(), FakeMachine()
        async with cluster(tmp_path, near, far) as place:
            kept = await place.submit(a_job())
            assert await place.node_of(kept) == ("near", "here")
        async with cluster(tmp_path, near, far, default="far", retired=("near",)) as place:
            assert await place.node_of(kept) == ("near", "here")
            assert await place.store.read(job_rows.list_used_engines) == ["near"]
            assert await place.node_of(await place.submit(a_job())) == ("far", "there")
            (attempt,) = near.tasks
            assert near.tasks[attempt].starts == 1
            place.near.finish_task(attempt)
            await place.until(kept, JobState.SUCCEEDED)
            assert attempt not in far.tasks

    run(story)


def test_an_engine_that_is_away_holds_up_only_its_own_jobs(tmp_path: Path) -> None:
    async def story() -> None:
        async with cluster(tmp_path) as place:
            place.far.set_conditions(AWAY)
            id = await place.submit(a_job(engine="far"))
            (reason,) = await place.reasons(id)
            assert reason == "No available node can run it. Node there: The daemon does not respond."
            assert await place.node_of(await place.submit(a_job())) == ("near", "here")
            place.far.set_conditions()
            assert await place.node_of(id) == ("far", "there")

    run(story)


def test_nodes_come_and_go(tmp_path: Path) -> None:
    async def story() -> None:
        async with cluster(tmp_path) as place:
            running = await place.submit(a_job(engine="far"))
            await place.until(running, JobState.RUNNING)
            place.far.set_nodes([])
            id = await place.submit(a_job(cpu=8.0, engine="far"))
            assert await place.reasons(id) == ("The engine far has no nodes.",)
            snapshot = place.controller.get_active_job(running)
            assert snapshot is not None
            assert snapshot.state is JobState.RUNNING  # a node that is not listed says nothing about its tasks
            place.far.set_nodes([LARGE])
            assert await place.node_of(id) == ("far", "there")
            assert place.controller.ledger.free["there"].cpu == 7  # the first one was not forgotten

    run(story)
