"""The controller with an engine that queues and places tasks itself."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from pathlib import Path
from typing import Any

from holdfast.core.attempt import JobSnapshot, ObservedState
from holdfast.core.attempt_id import AttemptId
from holdfast.core.exits.exit import ExitKind
from holdfast.core.job import Job, Resources, Role
from holdfast.core.records import Group
from holdfast.core.scheduling.placement import Quota
from holdfast.core.states import JobState
from tests.controller.test_loop import a_job, cancel_workers, run, running
from tests.fake_cluster import FakeCluster
from tests.fake_engine import FakeMachine, Faults


class SmallCluster(FakeCluster):
    machines = ("n0", "n1")
    queue_limit = 2
    interval = 0.005


class LargeCluster(SmallCluster):
    machines = tuple(f"n{i}" for i in range(40))


class HangingStarts(Faults):
    """The second task of a gang is never passed to the engine."""

    async def before_call(self, call: str, attempt_id: str) -> None:
        if call == "start" and AttemptId.parse(attempt_id).task == "main-1":
            await asyncio.Event().wait()


def opened(home: Path, machine: FakeMachine | None = None, **options: Any) -> Any:
    return running(home, machine, engine=SmallCluster, **options)


def list_ids(snapshot: JobSnapshot) -> list[str]:
    return [snapshot.build_attempt_id(task) for task in snapshot.tasks]


def test_jobs_enter_the_queue_when_others_start(tmp_path: Path) -> None:
    async def story() -> None:
        async with opened(tmp_path) as place:
            running_ids = [await place.submit(a_job()) for _ in range(2)]
            for id in running_ids:
                await place.until(id, JobState.RUNNING)
            waiting_ids = [await place.submit(a_job()) for _ in range(2)]
            for id in waiting_ids:
                assert (await place.until(id, JobState.PREPARING)).message == "Placed on cluster"
            last = await place.submit(a_job(cpu=5000.0))
            assert await place.reasons(last) == ("2 tasks already wait in the queue of fake.",)
            assert place.controller.predict_start(a_job(), "ann").answer == "wait"
            (node,), _ = place.controller.get_usage()
            assert (node.waiting, node.free.cpu) == (2, 0.0)
            await place.controller.stop_job(running_ids[0], "ann")
            await place.until(waiting_ids[0], JobState.RUNNING)
            await place.until(last, JobState.PREPARING)
            await place.controller.stop_job(last, "ann")  # while it is queued
            end = await place.until(last, JobState.CANCELLED)
            assert (end.started_at, end.tasks[0].started_at) == (None, None)

    run(story)


def test_what_the_engine_has_chosen_is_kept_with_the_task(tmp_path: Path) -> None:
    async def story() -> None:
        resources = Resources(gpu=2)
        role = Role(name="main", commands=("sleep 9",), instances=2, resources=resources, ports={"web": 2})
        async with opened(tmp_path) as place:
            id = await place.submit(Job(name="sample", roles=(role,), time_limit=timedelta(minutes=5)))
            first = await place.until(id, JobState.RUNNING)
            while not all(task.host for task in first.tasks):
                await asyncio.sleep(0.001)
                first = place.controller.get_active_job(id) or first
            launch = place.engine.machine.tasks[list_ids(first)[1]].launch
            assert (launch.node, launch.gpus, launch.ports, launch.port_counts) == (None, (), {}, {"web": 2})
            assert (launch.gang, launch.time_limit) == (tuple(list_ids(first)), 300.0)
            assert launch.leaves_gpus_to_engine
            for task in first.tasks:
                assert (task.node, task.gpus, task.ports) == ("cluster", (0, 1), {"web": (20000, 20001)})
            assert {task.host for task in first.tasks} == {"n0", "n1"}
            texts = [event.message for event in await place.events(id) if event.kind == "task-started"]
            assert sorted(text.partition(" runs on ")[2] for text in texts) == ["n0", "n1"]
        async with opened(tmp_path, place.engine.machine) as place:
            again = await place.until(id, JobState.RUNNING)
            assert [(task.host, task.gpus, task.ports) for task in again.tasks] == [
                (task.host, task.gpus, task.ports) for task in first.tasks
            ]

    run(story)


def test_a_gang_that_was_passed_in_part_is_passed_again_after_a_restart(tmp_path: Path) -> None:
    async def story() -> None:
        machine, faults = FakeMachine(), HangingStarts()
        async with opened(tmp_path, machine) as place:
            place.engine.faults = faults
            id = await place.submit(a_job(instances=2))
            async with asyncio.timeout(20):
                while not place.engine._prepared:
                    await asyncio.sleep(0.001)
            snapshot = await place.until(id, JobState.PREPARING)
            assert machine.tasks == {}
            cancel_workers(place)
        async with opened(tmp_path, machine) as place:
            await place.until(id, JobState.RUNNING)
            tasks = [machine.tasks[attempt_id] for attempt_id in list_ids(snapshot)]
            assert [task.seen.seen for task in tasks] == [ObservedState.RUNNING] * 2

    run(story)


def test_a_large_gang_enters_an_empty_queue_and_starts_as_a_whole(tmp_path: Path) -> None:
    async def story() -> None:
        async with running(tmp_path, engine=LargeCluster) as place:
            id = await place.submit(a_job(instances=40))
            await place.until(id, JobState.RUNNING)
            assert len(place.engine.list_running()) == 40
            async with asyncio.timeout(20):
                while place.controller.ledger.queued["cluster"]:
                    await asyncio.sleep(0.001)

    run(story)


def test_a_restarted_server_counts_who_waits(tmp_path: Path) -> None:
    async def story() -> None:
        async with opened(tmp_path) as place:
            ids = [await place.submit(a_job()) for _ in range(4)]
            for id in ids[:2]:
                await place.until(id, JobState.RUNNING)
            for id in ids[2:]:
                await place.until(id, JobState.PREPARING)
        async with opened(tmp_path, place.engine.machine) as place:
            last = await place.submit(a_job())
            assert await place.reasons(last) == ("2 tasks already wait in the queue of fake.",)
            place.engine.finish_task(list_ids(await place.until(ids[0], JobState.RUNNING))[0])
            await place.until(last, JobState.PREPARING)

    run(story)


def test_what_the_cluster_can_never_run_is_refused_by_the_engine(tmp_path: Path) -> None:
    async def story() -> None:
        async with opened(tmp_path) as place:
            id = await place.submit(a_job(instances=5))
            end = await place.until(id, JobState.FAILED)
            assert end.exit is not None
            assert end.exit.kind is ExitKind.REFUSED
            assert end.message.endswith("System Error: The cluster has 2 machines.")

    run(story)


def test_quotas_count_in_the_queue_of_the_engine(tmp_path: Path) -> None:
    async def story() -> None:
        async with opened(tmp_path, groups=[Group(name="default", quota=Quota(cpu=3))]) as place:
            first = await place.submit(a_job(cpu=2.0))
            await place.until(first, JobState.RUNNING)
            second = await place.submit(a_job(cpu=2.0))
            assert await place.reasons(second) == ("The quota of group default is 3 cores, 2 in use, 2 requested.",)
            place.engine.finish_task(list_ids(await place.until(first, JobState.RUNNING))[0])
            await place.until(second, JobState.RUNNING)

    run(story)
