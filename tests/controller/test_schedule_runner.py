"""The clock of schedules, with a real controller and store."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import suppress
from datetime import datetime, timedelta
from pathlib import Path

import pytest

from holdfast.controller import schedule_runner
from holdfast.controller.schedule_runner import ScheduleRunner
from holdfast.core.records import JobFilter, JobSummary
from holdfast.core.schedule import OverlapPolicy, Recurrence, RecurrenceKind
from holdfast.core.states import JobState
from holdfast.store.errors import StoreError
from tests.services.house import TIMEOUT, House, open_house

pytestmark = pytest.mark.anyio

HOURLY = Recurrence(kind=RecurrenceKind.CUSTOM, cron="0 * * * *", timezone="UTC")
SLEEPER = "name: sleeper\ncommand: sleep 100\n"


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture
async def house(tmp_path: Path) -> AsyncIterator[House]:
    async with open_house(tmp_path / "home") as opened:
        opened.controller.add_end_listener(opened.services.schedules.due_runs.release_queued_run)
        going = asyncio.create_task(ScheduleRunner(opened.services.schedules.due_runs, clock=opened.clock.now).run())
        yield opened
        going.cancel()
        with suppress(asyncio.CancelledError):
            await going


async def jobs(house: House, count: int) -> list[JobSummary]:
    """Once there are so many, newest first."""
    async with asyncio.timeout(TIMEOUT):
        while True:
            page = await house.services.jobs.list(house.admin, JobFilter())
            if len(page.items) >= count:
                return list(page.items)
            await asyncio.sleep(0.01)


async def add(house: House, **more: OverlapPolicy) -> datetime:
    made = await house.services.schedules.create(house.admin, SLEEPER, HOURLY, **more)  # type: ignore[arg-type]
    assert made.schedule.next_run_at is not None
    return made.schedule.next_run_at


async def test_it_wakes_by_itself_when_something_is_due(house: House) -> None:
    due_at = await add(house)
    house.clock.at = due_at - timedelta(milliseconds=20)
    house.services.schedules.due_runs.wake()  # so that it looks at the clock, which was set
    house.clock.at = due_at
    assert len(await jobs(house, 1)) == 1


async def test_a_new_schedule_wakes_it(house: House) -> None:
    house.clock.at = house.clock.at.replace(minute=59, second=59, microsecond=999_000)
    due_at = await add(house)  # while it sleeps for long, as nothing is due
    house.clock.at = due_at
    assert len(await jobs(house, 1)) == 1


async def test_a_clock_that_was_days_ahead_for_a_while_silences_nothing(house: House) -> None:
    due_at = await add(house)
    await next_run(house, due_at)
    house.clock.at = due_at + timedelta(days=30)
    house.services.schedules.due_runs.wake()
    await next_run(house, due_at + timedelta(days=30, hours=1))
    house.clock.at = due_at - timedelta(minutes=10)
    house.services.schedules.due_runs.wake()
    await next_run(house, due_at)


async def next_run(house: House, at: datetime) -> None:
    """Once it is then."""
    async with asyncio.timeout(TIMEOUT):
        while (await house.services.schedules.list(house.admin)).items[0].next_run_at != at:
            await asyncio.sleep(0.01)


async def test_a_jobs_end_begins_the_run_that_waits_for_it(house: House) -> None:
    due_at = await add(house, overlap=OverlapPolicy.QUEUE)
    for hours in (0, 1):
        house.clock.at = due_at + timedelta(hours=hours)
        house.services.schedules.due_runs.wake()
        (first,) = await jobs(house, 1)
    await house.until(first.id, JobState.RUNNING)
    await waits(house)
    (running,) = house.engine.list_running()
    house.engine.finish_task(running)
    second, _ = await jobs(house, 2)
    assert second.schedule == first.schedule


async def waits(house: House) -> None:
    async with asyncio.timeout(TIMEOUT):
        while (await house.services.schedules.list(house.admin)).items[0].queued_at is None:
            await asyncio.sleep(0.01)


async def test_it_goes_on_when_the_store_had_failed(
    house: House, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    due_at = await add(house)
    due = house.services.schedules.due_runs
    monkeypatch.setattr(schedule_runner, "RETRY_INTERVAL", 0.01)
    monkeypatch.setattr(house.store, "write", failing_once(house.store.write))
    house.clock.at = due_at
    due.wake()
    (job,) = await jobs(house, 1)
    assert "could not run schedules" in caplog.text
    await house.until(job.id, JobState.RUNNING)


async def test_a_job_that_was_stored_though_the_store_said_no_is_run_once(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    due_at = await add(house)
    monkeypatch.setattr(schedule_runner, "RETRY_INTERVAL", 0.01)
    monkeypatch.setattr(house.store, "write", failing_once(house.store.write, after=True))
    house.clock.at = due_at
    house.services.schedules.due_runs.wake()
    (job,) = await jobs(house, 1)
    await house.until(job.id, JobState.RUNNING)
    assert len(await jobs(house, 1)) == 1


Write = Callable[..., Awaitable[object]]


def failing_once(write: Write, *, after: bool = False) -> Write:
    """The first turn of a schedule fails; `after`: it is saved all the same, as when a connection breaks too late."""
    failed: list[bool] = []

    async def try_write(fn: Callable[..., object], *args: object, **more: object) -> object:
        if fn.__name__ != "advance_schedules" or failed:
            return await write(fn, *args, **more)
        failed.append(True)
        if after:
            await write(fn, *args, **more)
        raise StoreError("The connection is gone")

    return try_write
