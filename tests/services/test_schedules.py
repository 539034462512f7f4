"""Schedules: what users do with them, and what comes of it when they are due."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from holdfast.core.access import Actor
from holdfast.core.catalogue import ImageAlias, InstanceType
from holdfast.core.errors import Conflict, Forbidden, NotFound, UserError
from holdfast.core.records import Dataset, Group, JobFilter, JobSummary
from holdfast.core.schedule import (
    InvalidReason,
    MissedRunPolicy,
    OverlapPolicy,
    Recurrence,
    RecurrenceKind,
    RunResult,
    Schedule,
    ScheduleOrder,
    ScheduleQuery,
    ScheduleRun,
)
from holdfast.core.states import JobState
from holdfast.services.errors import InstanceTypeNotFound
from holdfast.services.schedules.recurrence import InvalidRecurrence
from holdfast.services.schedules.service import ScheduleChange
from holdfast.store.jobs import records as job_rows

from .house import House, open_house

pytestmark = pytest.mark.anyio

HELLO = "name: hello\ncommand: echo hello\n"
SLEEPER = "name: sleeper\ncommand: sleep 100\n"
SECRET = "name: keyed\ncommand: echo <% $secrets.key %>\nsecrets: {key: hunter2}\n"
DAILY = Recurrence(kind=RecurrenceKind.DAILY, timezone="UTC")
HOURLY = Recurrence(kind=RecurrenceKind.CUSTOM, cron="0 * * * *", timezone="UTC")
FORM = {"displayName": "nightly", "command": "echo hi", "image": "host", "instanceType": "cpu-1"}
START = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)  # where the house's clock begins


async def add(house: House, text: str = HELLO, recurrence: Recurrence = HOURLY, **more: Any) -> Schedule:
    actor = more.pop("actor", house.admin)
    return (await house.services.schedules.create(actor, text, recurrence, **more)).schedule


async def at(house: House, moment: datetime) -> None:
    """The clock is set, and what is due by then is dealt with."""
    house.clock.at = moment
    await house.services.schedules.due_runs.run_due_schedules()


async def look(house: House, schedule: Schedule) -> Schedule:
    return await house.services.schedules.get(house.admin, schedule.id)


async def runs(house: House, schedule: Schedule) -> Sequence[ScheduleRun]:
    return await house.services.schedules.list_runs(house.admin, schedule.id)


async def results(house: House, schedule: Schedule) -> list[str]:
    """Oldest first."""
    return [run.result.value for run in reversed(await runs(house, schedule))]


async def jobs(house: House) -> list[JobSummary]:
    """Oldest first."""
    page = await house.services.jobs.list(house.admin, JobFilter())
    return list(reversed(page.items))


def hour(number: int, minute: int = 0, second: int = 0) -> datetime:
    return START.replace(hour=number, minute=minute, second=second)


# -- making and looking


async def test_a_schedule_runs_its_job_when_it_is_due(house: House) -> None:
    schedule = await add(house)
    assert (schedule.name, schedule.user, schedule.group) == ("hello", "admin", "default")
    assert schedule.next_run_at == hour(13)
    await at(house, hour(12, 59, 59))
    assert await jobs(house) == []
    await at(house, hour(13))
    (job,) = await jobs(house)
    assert (job.name, job.user, job.schedule) == ("hello", "admin", schedule.id)
    assert (await house.until(job.id)).state is JobState.SUCCEEDED
    found = await look(house, schedule)
    assert (found.last_run_at, found.next_run_at) == (hour(13), hour(14))
    (run,) = await runs(house, schedule)
    assert (run.result, run.job_id, run.due_at) == (RunResult.STARTED, job.id, hour(13))
    assert run.job_state is JobState.SUCCEEDED
    events = await house.services.jobs.list_events(house.admin, job.id)
    assert events[0].message == f"Submitted by the schedule {schedule.id}, due at 2026-03-01 13:00:00 UTC"


async def test_a_time_is_taken_once(house: House) -> None:
    schedule = await add(house)
    await at(house, hour(13))
    for moment in (hour(13), hour(13, 0, 30), hour(12, 59), hour(13)):  # also when the clock is set back
        await at(house, moment)
    assert len(await jobs(house)) == 1
    await house.services.schedules.pause(house.admin, schedule.id)
    house.clock.at = hour(12, 30)
    resumed = await house.services.schedules.resume(house.admin, schedule.id)
    assert resumed.next_run_at == hour(14)  # 13:00 has been


async def test_a_clock_set_back_by_days_does_not_stop_a_schedule_for_as_long(house: House) -> None:
    schedule = await add(house)
    await at(house, START + timedelta(days=30))
    house.clock.at = hour(12, 30)
    changed = await house.services.schedules.change(house.admin, schedule.id, ScheduleChange(recurrence=DAILY))
    assert changed.schedule.next_run_at == START.replace(day=2, hour=4)


async def test_secrets_are_kept_from_sight_and_given_to_the_jobs(house: House) -> None:
    schedule = await add(house, SECRET)
    assert schedule.job.secrets == {"key": "******"}
    assert "hunter2" not in schedule.source
    assert (await look(house, schedule)).job.secrets == {"key": "******"}
    await at(house, hour(13))
    (job,) = await jobs(house)
    snapshot = await house.store.read(job_rows.load_snapshot, job.id)
    assert snapshot.job.secrets == {"key": "hunter2"}
    raw = (house.home / "holdfast.db").read_bytes() + (house.home / "holdfast.db-wal").read_bytes()
    assert b"hunter2" not in raw


async def test_a_job_file_that_would_be_refused_makes_no_schedule(house: House) -> None:
    bob = await house.user("bob", "lab")
    for text, actor in (("name: x\n", house.admin), (f"{HELLO}group: default\n", bob)):
        with pytest.raises(UserError):
            await add(house, text, actor=actor)
    assert (await house.services.schedules.list(house.admin)).total == 0


async def test_bad_times_are_refused_or_kept_and_told(house: House) -> None:
    bad = Recurrence(kind=RecurrenceKind.CUSTOM, cron="0 25 * * *")
    with pytest.raises(InvalidRecurrence, match="hour: 25 is not between 0 and 23"):
        await add(house, recurrence=bad)
    with pytest.raises(UserError, match="end time is in the past"):
        await add(house, ends_at=hour(11))
    with pytest.raises(InvalidRecurrence, match="at most 200 characters"):
        await add(house, recurrence=Recurrence(cron="0 " * 200), accept_invalid=True)
    kept = await add(house, recurrence=bad, accept_invalid=True)
    assert (kept.invalid, kept.next_run_at) == (InvalidReason.CRON, None)
    assert "hour: 25" in kept.message
    assert (await look(house, kept)).invalid is InvalidReason.CRON
    mended = await house.services.schedules.change(house.admin, kept.id, ScheduleChange(recurrence=HOURLY))
    assert (mended.schedule.invalid, mended.schedule.message) == (None, "")
    assert mended.schedule.next_run_at == hour(13)


async def test_previews_tell_the_next_times(house: House) -> None:
    preview = house.services.schedules.preview_times
    assert await preview(HOURLY, 3) == (hour(13), hour(14), hour(15))
    assert await preview(HOURLY, 3, ends_at=hour(13, 30)) == (hour(13),)
    assert await preview(Recurrence(kind=RecurrenceKind.INACTIVE)) == ()
    with pytest.raises(InvalidRecurrence, match="five fields"):
        await preview(Recurrence(kind=RecurrenceKind.CUSTOM, cron="0 4"))


async def test_lists_are_sorted_paged_and_within_ones_groups(house: House) -> None:
    bob, eve = await house.user("bob", "lab"), await house.user("eve", "attic")
    first = await add(house, HELLO, DAILY, actor=bob)
    house.clock.forward(1)
    second = await add(house, SLEEPER, HOURLY, actor=bob)
    third = await add(house, HELLO, Recurrence(), actor=eve)
    schedules = house.services.schedules

    async def ids(actor: Actor, **query: Any) -> list[str]:
        return [found.id for found in (await schedules.list(actor, ScheduleQuery(**query))).items]

    assert await ids(bob) == [second.id, first.id]
    assert await ids(bob, groups=("attic", "lab"), limit=1, offset=1) == [first.id]
    assert (await schedules.list(bob, ScheduleQuery(limit=1))).total == 2
    assert await ids(bob, groups=("attic",)) == []
    assert await ids(bob, text="SLEEP") == [second.id]
    assert await ids(bob, text="%") == []
    assert await ids(house.admin, user="eve") == [third.id]
    assert await ids(house.admin, order=ScheduleOrder.NAME, descending=False, user="bob") == [first.id, second.id]
    by_next = await ids(house.admin, order=ScheduleOrder.NEXT_RUN, descending=False)
    assert by_next == [second.id, first.id, third.id]
    with pytest.raises(UserError, match="limit must be between"):
        await ids(bob, limit=0)


async def test_a_schedule_one_may_not_see_is_not_there(house: House) -> None:
    bob, eve = await house.user("bob", "lab"), await house.user("eve", "attic")
    schedule = await add(house, actor=bob)
    schedules = house.services.schedules
    for id in (schedule.id, "recurrence-nosuch", "x" * 5000, "nul\0"):
        for call in (schedules.get, schedules.list_runs, schedules.delete, schedules.run_schedule_now, schedules.pause):
            with pytest.raises(NotFound, match=r"^Schedule .* not found"):
                await call(eve, id)


# -- when it cannot run


async def gone(house: House) -> None:
    await house.services.users.delete(house.admin, "bob")


async def disabled(house: House) -> None:
    await house.services.users.change(house.admin, "bob", disabled=True)


async def left(house: House) -> None:
    await house.services.groups.remove_member(house.admin, "lab", "bob")


@pytest.mark.parametrize(
    ("happen", "reason"), [(gone, InvalidReason.USER), (disabled, InvalidReason.USER), (left, InvalidReason.MEMBER)]
)
async def test_nothing_runs_for_whoever_lost_the_right(house: House, happen: Any, reason: InvalidReason) -> None:
    schedule = await add(house, actor=await house.user("bob", "lab"))
    await happen(house)
    await at(house, hour(13))
    assert await jobs(house) == []
    found = await look(house, schedule)
    assert (found.invalid, found.next_run_at) == (reason, hour(14))  # it is looked at again then, not each second
    (run,) = await runs(house, schedule)
    assert (run.result, run.job_id, run.message) == (RunResult.FAILED, None, found.message)
    await house.services.schedules.due_runs.run_due_schedules()
    assert await results(house, schedule) == ["failed"]


async def test_schedules_of_a_removed_user_are_not_for_another_of_that_name(house: House) -> None:
    schedule = await add(house, actor=await house.user("bob", "lab"))
    await gone(house)
    with pytest.raises(Conflict, match="deleted user bob still exist"):
        await house.user("bob", "lab")
    await at(house, hour(13))
    assert await jobs(house) == []
    await house.services.schedules.delete(house.admin, schedule.id)
    assert (await house.user("bob", "lab")).name == "bob"


async def test_schedules_of_a_removed_group_are_not_for_another_of_that_name(house: House) -> None:
    schedule = await add(house, actor=await house.user("bob", "lab"))
    await house.services.groups.delete(house.admin, "lab")
    with pytest.raises(Conflict, match="deleted group lab still exist"):
        await house.add_group("lab")
    await house.services.schedules.delete(house.admin, schedule.id)
    await house.add_group("lab")


async def test_a_schedule_heals_when_what_it_misses_is_back(house: House) -> None:
    bob = await house.user("bob", "lab")
    schedule = await add(house, actor=bob)
    await house.services.groups.remove_member(house.admin, "lab", "bob")
    assert (await house.services.schedules.list(house.admin)).items[0].invalid is InvalidReason.MEMBER
    await house.services.groups.set_member(house.admin, "lab", "bob", admin=False)
    await at(house, hour(13))
    assert [job.user for job in await jobs(house)] == ["bob"]
    assert (await look(house, schedule)).invalid is None


async def test_a_deleted_group_is_told(house: House) -> None:
    schedule = await add(house, actor=await house.user("bob", "lab"))
    await house.services.groups.delete(house.admin, "lab")
    found = await look(house, schedule)
    assert (found.invalid, found.message) == (InvalidReason.GROUP, "Group lab not found")


async def test_sizes_and_images_are_those_of_today(house: House) -> None:
    types, aliases = house.services.instance_types, house.services.image_aliases
    await types.create(house.admin, InstanceType(name="small", cpu=1, memory=2**30, everyone=True))
    await aliases.create(house.admin, ImageAlias(name="base", url="host", everyone=True))
    form = {**FORM, "instanceType": "small", "image": "base"}
    schedule = await add(house, json.dumps(form), dialect="primehub")
    assert schedule.invalid is None
    await aliases.delete(house.admin, "base")
    found = await look(house, schedule)
    assert (found.invalid, found.message) == (InvalidReason.IMAGE, "Image base not found")
    await aliases.create(house.admin, ImageAlias(name="base", url="host", everyone=True))
    assert (await look(house, schedule)).invalid is None
    await types.delete(house.admin, "small")
    assert (await look(house, schedule)).invalid is InvalidReason.INSTANCE_TYPE
    await types.create(house.admin, InstanceType(name="small", cpu=2, memory=2**30, everyone=True))
    await at(house, hour(13))
    (job,) = await jobs(house)
    assert job.cpu == 2


async def test_an_image_nobody_knows_is_told_at_once(house: House) -> None:
    schedule = await add(house, f"{HELLO}image: nowhere/none\n")
    assert schedule.invalid is InvalidReason.IMAGE
    await at(house, hour(13))
    assert await results(house, schedule) == ["failed"]


# -- missed runs


async def test_what_was_due_while_no_server_ran_is_told_once_and_skipped(house: House) -> None:
    schedule = await add(house)
    await at(house, hour(20, 30))
    assert await results(house, schedule) == ["missed"]
    assert (await look(house, schedule)).next_run_at == hour(21)
    assert await jobs(house) == []


async def test_one_run_makes_up_for_all_that_were_missed(house: House) -> None:
    schedule = await add(house, missed=MissedRunPolicy.ONCE)
    await at(house, hour(20, 30))
    assert await results(house, schedule) == ["started"]
    assert (await look(house, schedule)).next_run_at == hour(21)


async def test_a_little_late_is_not_missed(house: House) -> None:
    schedule = await add(house)
    await at(house, hour(13, 2))
    assert await results(house, schedule) == ["started"]
    await at(house, hour(14, 2, 1))
    assert await results(house, schedule) == ["started", "missed"]


async def test_of_missed_runs_one_that_is_recent_still_runs(house: House) -> None:
    schedule = await add(house)
    await at(house, hour(20, 1))
    assert await results(house, schedule) == ["missed", "started"]
    assert [run.due_at for run in await runs(house, schedule)] == [hour(20), hour(13)]


# -- overlaps


@pytest.fixture
def wired(house: House) -> House:
    house.controller.add_end_listener(house.services.schedules.due_runs.release_queued_run)
    return house


async def finish(house: House, job_id: str) -> None:
    """Let its task end, and wait until that is known."""
    await house.until(job_id, JobState.RUNNING)
    for attempt in house.engine.list_running():
        if attempt.startswith(job_id):
            house.engine.finish_task(attempt)
    await house.until(job_id)


async def test_a_run_that_finds_an_earlier_job_is_skipped(wired: House) -> None:
    schedule = await add(wired, SLEEPER)
    for number in (13, 14):
        await at(wired, hour(number))
    (job,) = await jobs(wired)
    assert await results(wired, schedule) == ["started", "skipped"]
    assert (await runs(wired, schedule))[0].message == f"The earlier job {job.id} has not finished"
    await finish(wired, job.id)
    await at(wired, hour(15))
    assert await results(wired, schedule) == ["started", "skipped", "started"]


async def test_jobs_that_somebody_asked_for_are_in_nobodys_way(wired: House) -> None:
    schedule = await add(wired, SLEEPER)
    asked = await wired.services.schedules.run_schedule_now(wired.admin, schedule.id)
    await at(wired, hour(13))
    assert await results(wired, schedule) == ["started", "started"]
    assert asked.summary.schedule is None
    assert [run.actor for run in await runs(wired, schedule)] == ["holdfast", "admin"]


async def test_one_run_waits_for_the_earlier_job(wired: House) -> None:
    schedule = await add(wired, SLEEPER, overlap=OverlapPolicy.QUEUE)
    for number in (13, 14, 15):
        await at(wired, hour(number))
    (job,) = await jobs(wired)
    assert await results(wired, schedule) == ["started", "skipped"]  # the second waits, the third has no place
    assert (await look(wired, schedule)).queued_at == hour(14)
    due = wired.services.schedules.due_runs
    waiting = asyncio.create_task(due.wait_for_wake(60))
    await finish(wired, job.id)
    await waiting  # the job's end is what wakes the clockwork
    await due.run_due_schedules()
    assert await results(wired, schedule) == ["started", "skipped", "started"]
    newest = (await runs(wired, schedule))[0]
    assert newest.due_at == hour(14)
    assert (await look(wired, schedule)).queued_at is None
    await finish(wired, newest.job_id or "")


async def test_a_run_that_waits_is_found_again_after_a_restart(tmp_path: Path) -> None:
    async with open_house(tmp_path / "home") as house:
        schedule = await add(house, SLEEPER, overlap=OverlapPolicy.QUEUE)
        for number in (13, 14):
            await at(house, hour(number))
        (job,) = await jobs(house)
        await finish(house, job.id)  # nobody told the schedules: as if the server had died
        house.services.schedules.due_runs._released_schedules.clear()
        await house.services.schedules.due_runs.recover_schedules()
        await house.services.schedules.due_runs.run_due_schedules()
        assert await results(house, schedule) == ["started", "started"]


async def test_a_run_that_waited_goes_before_those_that_are_due_since(wired: House) -> None:
    schedule = await add(wired, SLEEPER, overlap=OverlapPolicy.QUEUE)
    for number in (13, 14):
        await at(wired, hour(number))
    (job,) = await jobs(wired)
    await finish(wired, job.id)
    await at(wired, hour(15))  # nobody looked in between: that job may have ended while no server ran
    newest = (await runs(wired, schedule))[0]
    assert newest.due_at == hour(14)
    assert (await look(wired, schedule)).queued_at == hour(15)
    await finish(wired, newest.job_id or "")


async def test_pausing_drops_the_run_that_waits(wired: House) -> None:
    schedule = await add(wired, SLEEPER, overlap=OverlapPolicy.QUEUE)
    for number in (13, 14):
        await at(wired, hour(number))
    paused = await wired.services.schedules.pause(wired.admin, schedule.id)
    assert (paused.paused, paused.next_run_at, paused.queued_at) == (True, None, None)
    (job,) = await jobs(wired)
    await finish(wired, job.id)
    await at(wired, hour(18))
    assert await results(wired, schedule) == ["started", "skipped"]


async def test_a_new_run_takes_the_place_of_the_earlier_job(wired: House) -> None:
    schedule = await add(wired, SLEEPER, overlap=OverlapPolicy.CANCEL)
    for number in (13, 14):
        await at(wired, hour(number))
    old, new = await jobs(wired)
    ended = await wired.until(old.id)
    why = f"replaced by the next run of its schedule {schedule.id}"
    assert (ended.state, ended.message, ended.stop_why) == (JobState.CANCELLED, f"Cancelled: {why}", why)
    told = [event.message for event in await wired.services.jobs.list_events(wired.admin, old.id)]
    assert {f"holdfast requested a stop: {why}", f"Cancelled: {why}"} <= set(told)
    assert not new.stopping
    assert await results(wired, schedule) == ["started", "started"]


async def test_whoever_died_before_stopping_the_earlier_job_stops_it_later(wired: House) -> None:
    schedule = await add(wired, SLEEPER, overlap=OverlapPolicy.QUEUE)
    await at(wired, hour(13))
    await wired.services.schedules.change(wired.admin, schedule.id, ScheduleChange(overlap=OverlapPolicy.CANCEL))
    stopped = wired.controller.stop_job

    async def die(job_id: str, actor: str, why: str = "") -> bool:
        raise RuntimeError

    wired.controller.stop_job = die  # type: ignore[method-assign]
    with pytest.raises(RuntimeError):
        await at(wired, hour(14))
    wired.controller.stop_job = stopped  # type: ignore[method-assign]
    await wired.services.schedules.due_runs.recover_schedules()
    old, new = await jobs(wired)
    assert (await wired.until(old.id)).state is JobState.CANCELLED
    assert not new.stopping


# -- pauses and ends


async def test_what_was_due_during_a_pause_was_not_missed(house: House) -> None:
    schedule = await add(house, missed=MissedRunPolicy.ONCE)
    await house.services.schedules.pause(house.admin, schedule.id)
    await at(house, hour(20, 30))
    resumed = await house.services.schedules.resume(house.admin, schedule.id)
    assert resumed.next_run_at == hour(21)
    assert await results(house, schedule) == []


async def test_nothing_is_due_after_the_end(house: House) -> None:
    schedule = await add(house, ends_at=hour(14))
    for number in (13, 14, 15):
        await at(house, hour(number))
        await house.until((await jobs(house))[-1].id)
    assert await results(house, schedule) == ["started", "started"]
    assert (await look(house, schedule)).next_run_at is None
    changed = await house.services.schedules.change(house.admin, schedule.id, ScheduleChange(ends_at=None))
    assert (changed.schedule.ends_at, changed.schedule.next_run_at) == (None, hour(16))


async def test_an_inactive_schedule_runs_when_asked_only(house: House) -> None:
    schedule = await add(house, recurrence=Recurrence())
    assert (schedule.invalid, schedule.next_run_at) == (None, None)
    await at(house, hour(20))
    assert await jobs(house) == []
    await house.services.schedules.run_schedule_now(house.admin, schedule.id)
    assert len(await jobs(house)) == 1


# -- changing


async def test_changes_merge_into_primehubs_form(house: House) -> None:
    form = {**FORM, "activeDeadlineSeconds": 3600}
    schedule = await add(house, json.dumps(form), DAILY, dialect="primehub")
    changed = await house.services.schedules.change(
        house.admin, schedule.id, ScheduleChange(form={"command": "echo other", "groupId": "default"})
    )
    job = changed.schedule.job
    assert (job.name, job.roles[0].commands, job.time_limit) == ("nightly", ("echo other",), timedelta(hours=1))
    assert json.loads(changed.schedule.source)["instanceType"] == "cpu-1"
    renamed = await house.services.schedules.change(
        house.admin, schedule.id, ScheduleChange(form={"displayName": "weekly", "activeDeadlineSeconds": 60})
    )
    assert (renamed.schedule.name, renamed.schedule.job.time_limit) == ("weekly", timedelta(minutes=1))
    with pytest.raises(InstanceTypeNotFound):
        await house.services.schedules.change(
            house.admin, schedule.id, ScheduleChange(form={"instanceType": "no-such"})
        )


async def test_a_timeout_survives_runs_reruns_and_clones(house: House) -> None:
    form = {**FORM, "activeDeadlineSeconds": 3600}
    schedule = await add(house, json.dumps(form), HOURLY, dialect="primehub")
    await at(house, hour(13))
    asked = await house.services.schedules.run_schedule_now(house.admin, schedule.id)
    (due, _) = await jobs(house)
    rerun = await house.services.jobs.rerun(house.admin, due.id)
    cloned = await house.services.jobs.submit(house.admin, await house.services.jobs.export_yaml(house.admin, due.id))
    for id in (due.id, asked.summary.id, rerun.summary.id, cloned.summary.id):
        assert (await house.services.jobs.get(house.admin, id)).time_limit == timedelta(hours=1)
    assert rerun.summary.schedule is None


async def test_another_job_file_takes_the_place_of_the_old_one(house: House) -> None:
    schedule = await add(house, SECRET)
    changed = await house.services.schedules.change(house.admin, schedule.id, ScheduleChange(text=SLEEPER))
    assert (changed.schedule.name, changed.schedule.source) == ("sleeper", SLEEPER)
    await at(house, hour(13))
    (job,) = await jobs(house)
    assert (await house.store.read(job_rows.load_snapshot, job.id)).job.secrets == {}


async def test_single_fields_belong_to_primehubs_form(house: House) -> None:
    schedule = await add(house)
    with pytest.raises(UserError, match="not in PrimeHub's form"):
        await house.services.schedules.change(house.admin, schedule.id, ScheduleChange(form={"command": "true"}))


async def test_what_runs_and_when_is_changed_apart(house: House) -> None:
    schedule = await add(house, HELLO, HOURLY)
    house.clock.at = hour(13, 0, 1)  # due, and not yet dealt with
    await house.services.schedules.change(house.admin, schedule.id, ScheduleChange(overlap=OverlapPolicy.CANCEL))
    await house.services.schedules.due_runs.run_due_schedules()
    assert await results(house, schedule) == ["started"]


async def test_a_schedule_moves_to_a_group_that_both_may_use(house: House) -> None:
    bob = await house.user("bob", "lab", "attic")
    eve = await house.user("eve", "lab")
    schedule = await add(house, actor=bob, group="lab")
    with pytest.raises(Forbidden, match="not a member of the group attic"):
        await house.services.schedules.change(eve, schedule.id, ScheduleChange(group="attic"))
    moved = (await house.services.schedules.change(bob, schedule.id, ScheduleChange(group="attic"))).schedule
    assert (moved.group, moved.user) == ("attic", "bob")
    with pytest.raises(NotFound):
        await house.services.schedules.get(eve, schedule.id)
    await at(house, hour(13))
    assert [(job.group, job.user) for job in await jobs(house)] == [("attic", "bob")]


# -- other people's schedules


async def test_members_change_each_others_schedules_and_owners_stay(house: House) -> None:
    bob, eve = await house.user("bob", "lab"), await house.user("eve", "lab")
    schedule = await add(house, json.dumps(FORM), HOURLY, actor=bob, dialect="primehub")
    changed = await house.services.schedules.change(eve, schedule.id, ScheduleChange(form={"command": "echo eve"}))
    assert (changed.schedule.user, changed.schedule.job.roles[0].commands) == ("bob", ("echo eve",))
    asked = await house.services.schedules.run_schedule_now(eve, schedule.id)
    assert (asked.summary.user, asked.summary.schedule) == ("eve", None)
    await house.services.schedules.delete(eve, schedule.id)


async def test_nobody_else_changes_or_runs_what_has_the_owners_secrets(house: House) -> None:
    bob, eve = await house.user("bob", "lab"), await house.user("eve", "lab")
    schedule = await add(house, SECRET, actor=bob)
    for change in (ScheduleChange(text=HELLO), ScheduleChange(text="name: x\ncommand: env\n")):
        with pytest.raises(
            Forbidden, match="Only bob and admins can change the job of keyed: its job file contains secrets"
        ):
            await house.services.schedules.change(eve, schedule.id, change)
    with pytest.raises(Forbidden, match="only bob can run it immediately"):
        await house.services.schedules.run_schedule_now(eve, schedule.id)
    paused = await house.services.schedules.pause(eve, schedule.id)  # that tells nothing
    assert paused.paused
    later = await house.services.schedules.change(eve, schedule.id, ScheduleChange(recurrence=DAILY, group="lab"))
    assert later.schedule.recurrence == DAILY


async def test_nobody_else_says_whom_the_owners_jobs_tell(house: House) -> None:
    bob, eve = await house.user("bob", "lab"), await house.user("eve", "lab")
    schedule = await add(house, HELLO, actor=bob)
    told = f"{HELLO}notify: [{{webhook: 'http://198.51.100.7/', on: [failed]}}]\n"
    with pytest.raises(Forbidden, match="its jobs send notifications on behalf of bob"):
        await house.services.schedules.change(eve, schedule.id, ScheduleChange(text=told))
    assert (await house.services.schedules.change(bob, schedule.id, ScheduleChange(text=told))).schedule.job.notify


async def test_nobody_else_reaches_the_owners_own_folder(house: House, tmp_path: Path) -> None:
    folder = tmp_path / "homes"
    folder.mkdir()
    await house.services.datasets.create(
        house.admin, Dataset(name="homes", path=str(folder), everyone=True, per_user=True)
    )
    bob, eve = await house.user("bob", "lab"), await house.user("eve", "lab")
    schedule = await add(house, actor=bob)
    text = "name: peek\ncommand: cat /datasets/homes/*\ndatasets: [homes]\n"
    with pytest.raises(Forbidden, match="it mounts folders of bob"):
        await house.services.schedules.change(eve, schedule.id, ScheduleChange(text=text))
    await house.services.schedules.change(bob, schedule.id, ScheduleChange(text=text))


async def test_nobody_else_prepares_a_peek_for_the_day_the_owner_is_back(house: House, tmp_path: Path) -> None:
    bob, eve = await house.user("bob", "lab"), await house.user("eve", "lab")
    schedule = await add(house, actor=bob)
    await house.services.groups.remove_member(house.admin, "lab", "bob")
    with pytest.raises(Forbidden, match="cannot be determined \\(Its owner bob is not in the group lab"):
        await house.services.schedules.change(eve, schedule.id, ScheduleChange(text="name: x\ncommand: env\n"))


async def test_what_a_schedule_is_called_and_how_long_it_runs_is_for_every_member(house: House, tmp_path: Path) -> None:
    folder = tmp_path / "homes"
    folder.mkdir()
    await house.services.datasets.create(
        house.admin, Dataset(name="homes", path=str(folder), everyone=True, per_user=True)
    )
    bob, eve = await house.user("bob", "lab"), await house.user("eve", "lab")
    schedule = await add(house, json.dumps(FORM), HOURLY, actor=bob, dialect="primehub")
    change = ScheduleChange(form={"displayName": "mornings", "activeDeadlineSeconds": 60})
    assert (await house.services.schedules.change(eve, schedule.id, change)).schedule.name == "mornings"


async def test_nobody_else_reaches_the_shared_volumes_of_the_owners_other_groups(house: House) -> None:
    bob, eve = await house.user("bob", "lab", "vault"), await house.user("eve", "lab")
    await house.services.groups.create(house.admin, Group(name="open", shared_volume=True, launch_only=False))
    await house.services.groups.set_member(house.admin, "open", "bob", admin=False)
    schedule = await add(house, json.dumps(FORM), HOURLY, actor=bob, dialect="primehub", group="lab")
    with pytest.raises(Forbidden, match="its jobs can access the shared volume of open"):
        await house.services.schedules.change(eve, schedule.id, ScheduleChange(form={"command": "ls /project"}))
    await house.services.groups.set_member(house.admin, "open", "eve", admin=False)
    both = Actor(name="eve", groups={"lab": False, "open": False})
    await house.services.schedules.change(both, schedule.id, ScheduleChange(form={"command": "ls /project"}))


async def test_an_editor_lends_no_rights_to_mount(house: House, tmp_path: Path) -> None:
    schedule = await add(house)  # the admin's own: admins may mount any folder
    eve = await house.user("eve", "default")
    text = f"name: peek\ncommand: ls\nmounts: [{{source: {tmp_path}, target: /peek}}]\n"
    with pytest.raises(UserError, match="is not allowed as a mount"):
        await house.services.schedules.change(eve, schedule.id, ScheduleChange(text=text))


async def test_an_admin_may_leave_schedules_to_their_owners(tmp_path: Path) -> None:
    async with open_house(tmp_path / "home", settings={"access": {"acting": "owners"}}) as house:
        bob = await house.user("bob", "lab")
        eve = Actor(name="eve", groups={"lab": False}, own_only=True)
        schedule = await add(house, actor=bob)
        schedules = house.services.schedules
        assert (await schedules.get(eve, schedule.id)).id == schedule.id
        for call in (schedules.delete, schedules.run_schedule_now, schedules.pause, schedules.resume):
            with pytest.raises(Forbidden, match="bob"):
                await call(eve, schedule.id)
        lead = Actor(name="eve", groups={"lab": True}, own_only=True)
        await schedules.pause(lead, schedule.id)


# -- many, and trouble


@pytest.mark.release
async def test_many_at_once_and_each_once(house: House) -> None:
    made = [await add(house, f"name: job-{n}\ncommand: sleep 1\n") for n in range(250)]
    await asyncio.gather(*(at(house, hour(13)) for _ in range(3)))  # even if three clocks went at one time
    found = await house.services.jobs.list(house.admin, JobFilter(), limit=500)
    assert sorted(job.schedule or "" for job in found.items) == sorted(schedule.id for schedule in made)


async def test_one_schedule_with_a_bug_keeps_no_other_waiting(house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    bad, good = await add(house, f"{HELLO}retry: 3\n"), await add(house)
    intake = house.services.schedules._validator
    again = type(intake).revalidate

    async def break_one(self: Any, actor: Actor, job: Any, source: str) -> Any:
        if job.max_retries == 3:
            raise ZeroDivisionError
        return await again(self, actor, job, source)

    monkeypatch.setattr(type(intake), "revalidate", break_one)
    await at(house, hour(13))
    assert await results(house, good) == ["started"]
    assert await results(house, bad) == ["failed"]


async def test_jobs_of_one_shape_are_each_their_own(house: House) -> None:
    """What they may have is worked out once for all of them."""
    first = "name: one\ncommand: echo <% $secrets.key %>\nenv: {A: '1'}\nsecrets: {key: k1}\ntags: [x]\n"
    second = "name: two\ndescription: other\ncommand: echo <% $secrets.key %> 2\nenv: {B: '2'}\nsecrets: {key: k2}\n"
    expected = {}
    for text in (first, second):
        schedule = await add(house, text)
        submitted = await house.submit(text)
        job = (await house.store.read(job_rows.load_snapshot, submitted.id)).job
        expected[schedule.id] = (job, (await house.services.jobs.load_detail(house.admin, submitted.id)).source)
    await at(house, hour(13))
    made = [job for job in await jobs(house) if job.schedule]
    assert len(made) == 2
    for summary in made:
        snapshot = await house.store.read(job_rows.load_snapshot, summary.id)
        record = await house.services.jobs.load_detail(house.admin, summary.id)
        assert (snapshot.job, record.source) == expected[summary.schedule or ""]


async def test_deleting_keeps_the_jobs(house: House) -> None:
    schedule = await add(house)
    await at(house, hour(13))
    await house.services.schedules.delete(house.admin, schedule.id)
    await at(house, hour(14))
    (job,) = await jobs(house)
    assert job.schedule == schedule.id
    with pytest.raises(NotFound):
        await look(house, schedule)


async def test_the_server_zone_is_looked_at_anew_at_each_start(tmp_path: Path) -> None:
    home = tmp_path / "home"
    zoneless = Recurrence(kind=RecurrenceKind.DAILY)
    async with open_house(home, settings={"schedules": {"timezone": "Asia/Taipei"}}) as house:
        schedule = await add(house, recurrence=zoneless)
        assert schedule.next_run_at == hour(20)
        house.services.schedules.due_runs._timing.timezone = "Europe/Berlin"
        await house.services.schedules.due_runs.recover_schedules()
        assert (await look(house, schedule)).next_run_at == datetime(2026, 3, 2, 3, 0, tzinfo=UTC)
