"""What the next run of a schedule waits for."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from holdfast.core.errors import NotFound
from holdfast.core.schedule import OverlapPolicy, Recurrence, RecurrenceKind, Schedule
from holdfast.core.scheduling.blockers import BlockerKind
from holdfast.core.states import JobState
from holdfast.services.schedules.wait_reasons import END_BY_LIMIT_BASIS

from .house import House

pytestmark = pytest.mark.anyio

HOURLY = Recurrence(kind=RecurrenceKind.CUSTOM, cron="0 * * * *", timezone="UTC")
SLEEPER = "name: sleeper\ncommand: sleep 100\ntime_limit: 3h\n"
ONE = datetime(2026, 3, 1, 13, 0, tzinfo=UTC)


async def add(house: House) -> Schedule:
    house.controller.clock = house.clock.now
    return (await house.services.schedules.create(house.admin, SLEEPER, HOURLY, overlap=OverlapPolicy.QUEUE)).schedule


async def test_a_run_waits_for_the_job_of_an_earlier_one(house: House) -> None:
    schedule = await add(house)
    house.clock.at = ONE
    await house.services.schedules.due_runs.run_due_schedules()
    (run,) = await house.services.schedules.list_runs(house.admin, schedule.id)
    job = run.job_id or ""
    await house.until(job, JobState.RUNNING)
    house.clock.at = ONE + timedelta(hours=1)
    await house.services.schedules.due_runs.run_due_schedules()
    wait = await house.services.schedule_waits.explain_schedule(house.admin, schedule.id)
    (blocker,) = wait.blockers
    assert blocker.kind is BlockerKind.SCHEDULE
    assert blocker.text == f"The run due at 2026-03-01 14:00:00 UTC starts when sleeper ({job}) has ended."
    assert [(holder.job_id, holder.user) for holder in blocker.holders] == [(job, "admin")]
    assert wait.helps == (f"Run `holdfast stop {job}` to let it start.",)
    assert wait.estimate is not None
    assert wait.estimate.basis == END_BY_LIMIT_BASIS
    assert wait.estimate.at is not None
    assert abs(wait.estimate.at - house.clock.now() - timedelta(hours=3)) < timedelta(minutes=1)  # by its time limit


async def test_when_the_next_run_is_due_and_what_keeps_a_schedule_from_it(house: House) -> None:
    schedule = await add(house)
    wait = await house.services.schedule_waits.explain_schedule(house.admin, schedule.id)
    assert wait.blockers == ()
    assert wait.estimate is not None
    assert (wait.estimate.at, wait.estimate.basis) == (ONE, "Its next run is due then.")
    await house.services.schedules.pause(house.admin, schedule.id)
    wait = await house.services.schedule_waits.explain_schedule(house.admin, schedule.id)
    (blocker,) = wait.blockers
    assert blocker.text == f"It is paused. Run `holdfast schedule resume {schedule.id}` to resume it."
    assert wait.estimate is None


async def test_strangers_are_told_nothing(house: House) -> None:
    schedule = await add(house)
    with pytest.raises(NotFound):
        await house.services.schedule_waits.explain_schedule(await house.user("eve", "secret"), schedule.id)
