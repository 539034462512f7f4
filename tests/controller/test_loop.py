"""The controller with a real store and an engine that does as it is told."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from holdfast.controller import planner, scheduler
from holdfast.controller.live_jobs import JobLimits
from holdfast.controller.loop import Controller
from holdfast.controller.retention import LogRetention
from holdfast.core.attempt import JobSnapshot, Observation, ObservedState
from holdfast.core.conditions import Condition, ConditionKind
from holdfast.core.exits.exit import ExitKind
from holdfast.core.job import Job, JobFormat, Resources, Role
from holdfast.core.records import Event, Group, NewEvent
from holdfast.core.scheduling.blockers import BlockerKind
from holdfast.core.scheduling.ledger import Ledger
from holdfast.core.scheduling.placement import Placement, PlacementRefusal, Quota
from holdfast.core.scheduling.queue import Queue
from holdfast.core.states import JobState
from holdfast.engines.base import LaunchSpec
from holdfast.store.database import Store
from holdfast.store.errors import StoreError
from holdfast.store.jobs import events as event_rows
from holdfast.store.jobs import records as job_rows
from holdfast.store.vault import Vault
from tests.fake_engine import FakeEngine, FakeMachine

LIMITS = JobLimits(time_limit=timedelta(hours=24), grace=timedelta(seconds=30), max_grace=timedelta(hours=1))


def a_job(script: str = "sleep 100", **fields: object) -> Job:
    cpu = fields.pop("cpu", 1.0)
    role = Role(name="main", commands=(script,), resources=Resources(cpu=cpu), instances=fields.pop("instances", 1))  # type: ignore[arg-type]
    return Job(name="sample", roles=(role,), **fields)  # type: ignore[arg-type]


class Place:
    """One server's worth of parts on one folder."""

    def __init__(
        self, home: Path, machine: FakeMachine, engine: type[FakeEngine] = FakeEngine, **options: object
    ) -> None:
        self.store = Store.open(f"sqlite:///{home / 'test.db'}", vault=Vault.open(home / "key"))
        self.engine = engine(machine)
        self.controller = Controller(self.store, self.engine, LIMITS, **options)  # type: ignore[arg-type]

    async def submit(self, job: Job, user: str = "ann") -> str:
        now = datetime.now(UTC)
        event = NewEvent(kind="submitted", message="Submitted", at=now, actor=user)
        new = job_rows.NewJob(job=job, user=user, source="", submitted_at=now, event=event)
        made = await self.store.write(job_rows.insert_job, new=new)
        self.controller.add_job(await self.store.read(job_rows.load_snapshot, made.summary.id))
        return made.summary.id

    async def until(self, job_id: str, *states: JobState) -> JobSnapshot:
        async with asyncio.timeout(20):
            while True:
                now = self.controller.get_active_job(job_id) or await self.store.read(job_rows.load_snapshot, job_id)
                if now.state in states:
                    return now
                await self.controller.wait_for_change(job_id, 20)

    async def reasons(self, job_id: str) -> tuple[str, ...]:
        """Why it waits, once it has been looked at."""
        async with asyncio.timeout(20):
            while not (found := self.controller.list_wait_reasons(job_id)):
                await asyncio.sleep(0.001)
        return found

    async def events(self, job_id: str) -> list[Event]:
        return list(await self.store.read(event_rows.list_events, job_id))

    async def kinds(self, job_id: str) -> list[str]:
        return [event.kind for event in await self.events(job_id)]


@asynccontextmanager
async def running(home: Path, machine: FakeMachine | None = None, **options: object) -> AsyncIterator[Place]:
    place = Place(home, machine or FakeMachine(), **options)
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


def cancel_workers(place: Place) -> None:
    """As if the server were killed: what it had begun is not finished."""
    for worker in place.controller.attempts._workers:
        worker.cancel()


def run(test: Callable[[], object]) -> None:
    asyncio.run(test())  # type: ignore[arg-type]


def test_a_job_runs_and_each_change_is_an_event(tmp_path: Path) -> None:
    async def story() -> None:
        async with running(tmp_path) as place:
            id = await place.submit(a_job("echo hello; exit 0"))
            end = await place.until(id, JobState.SUCCEEDED)
            assert end.exit is not None
            assert end.exit.code == 0
            assert await place.kinds(id) == ["submitted", "placed", "started", "succeeded"]

    run(story)


def test_a_restarted_server_takes_up_what_runs_and_hears_what_ended(tmp_path: Path) -> None:
    async def story() -> None:
        machine = FakeMachine()
        async with running(tmp_path, machine) as place:
            stays, ends = await place.submit(a_job()), await place.submit(a_job())
            await place.until(stays, JobState.RUNNING)
            await place.until(ends, JobState.RUNNING)
        helper = FakeEngine(machine)
        helper.finish_task(f"{ends}.0.main-0.0", 3)
        async with running(tmp_path, machine) as place:
            ended = await place.until(ends, JobState.FAILED)
            assert ended.exit is not None
            assert ended.exit.code == 3
            assert (await place.until(stays, JobState.RUNNING)).attempt == 0
            assert machine.tasks[f"{stays}.0.main-0.0"].starts == 1
            await place.controller.stop_job(stays, "ann")
            await place.until(stays, JobState.CANCELLED)

    run(story)


def test_server_dies_between_save_and_start(tmp_path: Path) -> None:
    async def story() -> None:
        machine = FakeMachine()
        async with running(tmp_path, machine) as place:
            never = asyncio.Event()

            async def hang(_: LaunchSpec) -> Observation:
                await never.wait()
                raise AssertionError

            place.engine.start = hang  # type: ignore[method-assign]
            id = await place.submit(a_job())
            await place.until(id, JobState.PREPARING)
            cancel_workers(place)
        assert not machine.tasks
        async with running(tmp_path, machine) as place:
            await place.until(id, JobState.RUNNING)
            assert list(machine.tasks) == [f"{id}.0.main-0.0"]

    run(story)


def test_a_store_that_refuses_for_a_while_loses_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("holdfast.controller.loop.STORE_RETRY_INTERVAL", 0.01)

    async def story() -> None:
        async with running(tmp_path) as place:
            write, left = place.store.write, 3

            async def full_disk(*args: object, **kwargs: object) -> object:
                nonlocal left
                if args[0] is job_rows.save_job_changes and left:
                    left -= 1
                    raise StoreError("The disk is full")
                return await write(*args, **kwargs)  # type: ignore[arg-type]

            place.store.write = full_disk  # type: ignore[method-assign, assignment]
            ids = [await place.submit(a_job("exit 0")) for _ in range(6)]
            for id in ids:
                await place.until(id, JobState.SUCCEEDED)
                assert await place.kinds(id) == ["submitted", "placed", "started", "succeeded"]
            assert not left
            assert not place.controller.ledger.assignments

    run(story)


SANDBOX = Condition(
    kind=ConditionKind.SANDBOX, message="Tasks cannot be isolated.", hint="Do this.", blocks_starts=True
)


def test_no_job_starts_while_a_condition_blocks_starts(tmp_path: Path) -> None:
    async def story() -> None:
        async with running(tmp_path) as place:
            running_before = await place.submit(a_job())
            await place.until(running_before, JobState.RUNNING)
            place.engine.set_conditions(SANDBOX)
            waits = await place.submit(a_job())
            assert await place.reasons(waits) == (SANDBOX.message,)
            assert place.controller.predict_start(a_job(), "ann").reasons[0] == SANDBOX.message
            wait = await place.controller.explain_wait(waits, lambda group: True, no_usual, 10)
            assert wait is not None
            assert [(each.kind, each.text) for each in wait.blockers] == [(BlockerKind.PLATFORM, SANDBOX.message)]
            assert wait.helps == (SANDBOX.hint,)
            place.engine.finish_task(f"{running_before}.0.main-0.0")
            await place.until(running_before, JobState.SUCCEEDED)
            pending = await place.until(waits, JobState.PENDING)
            assert not any(task.state.live for task in pending.tasks)
            place.engine.set_conditions()
            await place.until(waits, JobState.RUNNING)

    run(story)


async def no_usual(jobs: object) -> dict[str, float]:
    return {}


def test_a_condition_is_reported_until_it_is_resolved(tmp_path: Path) -> None:
    async def story() -> None:
        async with running(tmp_path) as place:
            full = Condition(kind=ConditionKind.DISK_FULL, message="The disk is full.", blocks_starts=True)
            place.controller.report_condition(full)
            place.controller.report_condition(full)
            assert place.controller.list_conditions() == (full,)
            waits = await place.submit(a_job())
            assert await place.reasons(waits) == ("The disk is full.",)
            place.controller.resolve_condition(ConditionKind.DISK_FULL)
            assert place.controller.list_conditions() == ()
            await place.until(waits, JobState.RUNNING)

    run(story)


def test_on_a_full_disk_ended_tasks_give_their_files_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Else one job could fill the disk and, its end never saved, keep it full for ever."""
    monkeypatch.setattr("holdfast.controller.loop.STORE_RETRY_INTERVAL", 0.01)

    async def story() -> None:
        async with running(tmp_path) as place:
            id = await place.submit(a_job())
            await place.until(id, JobState.RUNNING)
            write, machine = place.store.write, place.engine.machine
            task = machine.tasks[f"{id}.0.main-0.0"]

            async def full_until_freed(*args: object, **kwargs: object) -> object:
                if args[0] is job_rows.save_job_changes and not task.removed:
                    raise StoreError("The disk is full")
                return await write(*args, **kwargs)  # type: ignore[arg-type]

            place.store.write = full_until_freed  # type: ignore[method-assign, assignment]
            assert place.controller.list_conditions() == ()
            place.engine.finish_task(f"{id}.0.main-0.0", 5)
            end = await place.until(id, JobState.FAILED)
            assert end.exit is not None
            assert end.exit.code == 5

    run(story)


@pytest.mark.parametrize("after", range(3))
def test_a_save_that_went_through_though_it_seemed_to_fail(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, after: int
) -> None:
    """As when the database's answer to a commit is lost on the way."""
    monkeypatch.setattr("holdfast.controller.loop.STORE_RETRY_INTERVAL", 0.01)

    async def story() -> None:
        async with running(tmp_path) as place:
            write, saves = place.store.write, 0

            async def lost_answer(*args: object, **kwargs: object) -> object:
                nonlocal saves
                done = await write(*args, **kwargs)  # type: ignore[arg-type]
                if args[0] is job_rows.save_job_changes:
                    saves += 1
                    if saves == after + 1:
                        raise StoreError("Connection lost")
                return done

            place.store.write = lost_answer  # type: ignore[method-assign, assignment]
            id = await place.submit(a_job("echo hello; exit 0"))
            end = await place.until(id, JobState.SUCCEEDED)
            assert end.attempt == 0
            assert place.engine.machine.tasks[f"{id}.0.main-0.0"].starts == 1
            assert (await place.kinds(id))[-1] == "succeeded"
            assert not place.controller.ledger.assignments

    run(story)


def test_room_is_given_back_and_taken_by_the_next(tmp_path: Path) -> None:
    async def story() -> None:
        async with running(tmp_path) as place:
            first, second = await place.submit(a_job(cpu=4)), await place.submit(a_job(cpu=4))
            await place.until(first, JobState.RUNNING)
            assert await place.reasons(second)
            assert await place.controller.stop_job(first, "ann")
            await place.until(second, JobState.RUNNING)
            assert place.controller.list_wait_reasons(second) == ()

    run(story)


def test_more_than_the_machine_has_fails_as_a_system_error(tmp_path: Path) -> None:
    async def story() -> None:
        async with running(tmp_path) as place:
            end = await place.until(await place.submit(a_job(cpu=48)), JobState.FAILED)
            assert end.message == "System Error: a task requests 48 cores, but the largest node has 4"
            assert end.exit is not None
            assert end.exit.kind is ExitKind.REFUSED
            assert not place.engine.machine.tasks

    run(story)


def test_a_quota_raised_lets_the_waiting_in(tmp_path: Path) -> None:
    async def story() -> None:
        group = Group(name="default", quota=Quota(cpu=2))
        async with running(tmp_path, groups=[group]) as place:
            first, second = await place.submit(a_job(cpu=2)), await place.submit(a_job(cpu=2))
            await place.until(first, JobState.RUNNING)
            (reason,) = [text for text in await place.reasons(second) if "quota" in text]
            assert reason == "The quota of group default is 2 cores, 2 in use, 2 requested."
            place.controller.update_groups([replace(group, quota=Quota(cpu=4))])
            await place.until(second, JobState.RUNNING)

    run(story)


def test_the_time_limit_ends_it_also_when_the_wall_clock_stands_still(tmp_path: Path) -> None:
    async def story() -> None:
        frozen = datetime(2030, 1, 1, tzinfo=UTC)
        async with running(tmp_path, clock=lambda: frozen) as place:
            id = await place.submit(a_job(time_limit=timedelta(milliseconds=30)))
            end = await place.until(id, JobState.FAILED)
            assert end.exit is not None
            assert end.exit.kind is ExitKind.TIME_LIMIT

    run(story)


def test_a_stop_is_acknowledged_only_once_it_is_durable(tmp_path: Path) -> None:
    async def story() -> None:
        machine = FakeMachine()
        async with running(tmp_path, machine) as place:
            id = await place.submit(a_job("trap '' TERM; sleep 100"))
            await place.until(id, JobState.RUNNING)
            assert await place.controller.stop_job(id, "bob")
            saved = await place.store.read(job_rows.load_snapshot, id)
            assert saved.stop is not None
            assert saved.stop.actor == "bob"
        async with running(tmp_path, machine) as place:
            assert await place.controller.stop_job(id, "bob")
            async with asyncio.timeout(20):
                while len(machine.stops) < 2:
                    await asyncio.sleep(0.001)
            assert [grace for _, grace in machine.stops] == [30.0, 30.0]
            place.engine.finish_task(f"{id}.0.main-0.0", 137)
            await place.until(id, JobState.CANCELLED)
            assert not await place.controller.stop_job(id, "bob")

    run(story)


def test_a_start_that_breaks_is_told_and_tried_again_under_the_same_id(tmp_path: Path) -> None:
    async def story() -> None:
        async with running(tmp_path) as place:
            start, broken = place.engine.start, [True]

            async def fails_once(launch: LaunchSpec) -> Observation:
                if broken.pop() if broken else False:
                    raise OSError("no space left on device")
                return await start(launch)

            place.engine.start = fails_once  # type: ignore[method-assign]
            id = await place.submit(a_job("exit 0"))
            end = await place.until(id, JobState.SUCCEEDED)
            assert (end.attempt, end.platform_retries, end.user_retries) == (0, 0, 0)
            (told,) = [event for event in await place.events(id) if event.kind == "warning"]
            assert told.message == "main-0 has not started yet: no space left on device. Retrying."

    run(story)


def test_one_job_that_cannot_be_planned_does_not_stop_the_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = planner.plan_job

    def faulty(snapshot: JobSnapshot, *args: object, **kwargs: object) -> object:
        if snapshot.job.name == "cursed":
            raise RuntimeError("a bug")
        return real(snapshot, *args, **kwargs)  # type: ignore[arg-type]

    monkeypatch.setattr(planner, "plan_job", faulty)

    async def story() -> None:
        async with running(tmp_path) as place:
            await place.submit(replace(a_job(), name="cursed"))
            await place.until(await place.submit(a_job("exit 0")), JobState.SUCCEEDED)

    run(story)


def test_logs_go_after_their_time_and_the_record_stays(tmp_path: Path) -> None:
    async def story() -> None:
        async with running(tmp_path) as place:
            id = await place.submit(a_job("echo hello; exit 0"))
            await place.until(id, JobState.SUCCEEDED)
            now = datetime.now(UTC)
            keep = timedelta(days=7)
            early = LogRetention(place.store, place.engine, keep, clock=lambda: now + timedelta(days=6))
            assert await early.delete_expired_logs() == 0
            late = LogRetention(place.store, place.engine, keep, clock=lambda: now + timedelta(days=8))
            assert await late.delete_expired_logs() == 1
            assert not place.engine.machine.tasks[f"{id}.0.main-0.0"].logs_kept
            assert await late.delete_expired_logs() == 0
            assert (await place.store.read(job_rows.load_snapshot, id)).state is JobState.SUCCEEDED

    run(story)


def test_an_observation_of_a_task_nobody_knows_is_ignored(tmp_path: Path) -> None:
    async def story() -> None:
        async with running(tmp_path) as place:
            place.controller.attempts.handle_observation(
                Observation(attempt_id="job-x.0.main-0.0", seen=ObservedState.EXITED, code=0)
            )
            await place.until(await place.submit(a_job("exit 0")), JobState.SUCCEEDED)

    run(story)


@pytest.mark.parametrize(
    ("dialect", "group", "own", "limit"),
    [
        (JobFormat.HOLDFAST, None, None, timedelta(hours=24)),
        (JobFormat.PRIMEHUB, None, None, timedelta(hours=24)),
        (JobFormat.OPENPAI_V2, None, None, None),
        (JobFormat.OPENPAI_V1, timedelta(hours=2), None, timedelta(hours=2)),
        (JobFormat.OPENPAI_V2, timedelta(hours=2), timedelta(hours=3), timedelta(hours=3)),
    ],
)
def test_the_limit_in_force(
    tmp_path: Path, dialect: JobFormat, group: timedelta | None, own: timedelta | None, limit: timedelta | None
) -> None:
    groups = [Group(name="default", time_limit=group)]
    place = Place(tmp_path, FakeMachine(), groups=groups)
    assert place.controller.get_time_limit(a_job(dialect=dialect, time_limit=own)) == limit
    asyncio.run(place.store.close())


def test_a_job_that_is_refused_in_part_holds_nothing(tmp_path: Path) -> None:
    async def go() -> None:
        small, huge = (
            Role(name=n, commands=("sleep 9",), resources=Resources(cpu=c)) for n, c in (("a", 1), ("b", 99))
        )
        async with running(tmp_path) as place:
            id = await place.submit(replace(a_job(), roles=(small, huge), gang=False))
            await place.until(id, JobState.FAILED)
            assert place.controller.ledger.assignments == {}

    asyncio.run(go())


def test_a_bug_in_placing_stops_nothing_else(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def go() -> None:
        async with running(tmp_path) as place:
            running_id = await place.submit(a_job())
            await place.until(running_id, JobState.RUNNING)
            broken = True

            def place_or_fail(queue: Queue, ledger: Ledger, *more: Any) -> list[Placement | PlacementRefusal]:
                if broken and len(queue):
                    raise RuntimeError("generator raised StopIteration")
                return real(queue, ledger, *more)

            real = scheduler.place_jobs
            monkeypatch.setattr(scheduler, "place_jobs", place_or_fail)
            waiting_id = await place.submit(a_job())
            await asyncio.sleep(0.05)
            assert await place.controller.stop_job(running_id, "ann")
            await place.until(running_id, JobState.CANCELLED)
            broken = False
            third = await place.submit(a_job())
            for id in (waiting_id, third):
                await place.until(id, JobState.RUNNING)
            assert len(place.controller.ledger.assignments) == 2

    asyncio.run(go())


# -- jobs that pass


def _hours(count: float) -> timedelta:
    return timedelta(hours=count)


def test_with_backfill_a_job_passes_that_ends_before_the_head_can_start(tmp_path: Path) -> None:
    async def go() -> None:
        machine = FakeMachine()
        group = Group(name="lab", quota=Quota(cpu=2))
        async with running(tmp_path, machine, groups=[group], backfill=True) as place:
            first = await place.submit(a_job(group="lab", time_limit=_hours(2)))
            await place.until(first, JobState.RUNNING)
            head = await place.submit(a_job(group="lab", cpu=2.0, time_limit=_hours(1)))
            long = await place.submit(a_job(group="lab", time_limit=_hours(3)))
            short = await place.submit(a_job(group="lab", time_limit=_hours(1)))
            await place.until(short, JobState.RUNNING)
            assert "It cannot be backfilled: its time limit would delay a job ahead of it." not in (
                await place.reasons(head)
            )
            for id in (head, long):
                assert (await place.until(id, JobState.PENDING)).state is JobState.PENDING
            assert await place.controller.stop_job(short, "ann")
            await place.until(short, JobState.CANCELLED)
            assert (await place.reasons(long))[:2] == (
                f"{head}, ahead of it in the queue, is waiting for the quota of group lab.",
                "It cannot be backfilled: its time limit would delay a job ahead of it.",
            )

    asyncio.run(go())


def test_without_backfill_a_short_job_waits_behind_the_head(tmp_path: Path) -> None:
    async def go() -> None:
        async with running(tmp_path, groups=[Group(name="lab", quota=Quota(cpu=2))]) as place:
            first = await place.submit(a_job(group="lab", time_limit=_hours(2)))
            await place.until(first, JobState.RUNNING)
            head = await place.submit(a_job(group="lab", cpu=2.0))
            short = await place.submit(a_job(group="lab", time_limit=_hours(1)))
            assert (await place.reasons(short))[
                0
            ] == f"{head}, ahead of it in the queue, is waiting for the quota of group lab."

    asyncio.run(go())


def test_a_change_of_the_groups_time_limit_counts_at_once_for_who_may_pass(tmp_path: Path) -> None:
    async def go() -> None:
        group = Group(name="lab", quota=Quota(cpu=2), time_limit=_hours(3))
        async with running(tmp_path, groups=[group], backfill=True) as place:
            first = await place.submit(a_job(group="lab", time_limit=_hours(2)))
            await place.until(first, JobState.RUNNING)
            await place.submit(a_job(group="lab", cpu=2.0))
            small = await place.submit(a_job(group="lab"))
            await place.reasons(small)
            place.controller.update_groups([replace(group, time_limit=_hours(1))])
            await place.until(small, JobState.RUNNING)

    asyncio.run(go())


def test_saves_that_clash_do_not_forget_the_other_jobs_of_their_round(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The ends of two jobs had been saved though that seemed to fail; a third one ends meanwhile."""
    monkeypatch.setattr("holdfast.controller.loop.STORE_RETRY_INTERVAL", 0.01)

    async def story() -> None:
        async with running(tmp_path) as place:
            ids = [await place.submit(a_job()) for _ in range(3)]
            for id in ids:
                await place.until(id, JobState.RUNNING)
            write, answers = place.store.write, [True]

            async def lose_answer(*args: Any, **kwargs: Any) -> object:
                done = await write(*args, **kwargs)
                if args[0] is job_rows.save_job_changes and answers:
                    answers.pop()
                    place.engine.finish_task(f"{ids[2]}.0.main-0.0", 0)
                    raise StoreError("Connection lost")
                return done

            place.store.write = lose_answer  # type: ignore[method-assign, assignment]
            for id in ids[:2]:
                place.engine.finish_task(f"{id}.0.main-0.0", 0)
            for id in ids:
                await place.until(id, JobState.SUCCEEDED)

    run(story)
