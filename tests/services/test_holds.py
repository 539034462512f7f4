"""Failed tasks that are kept: who may extend, trim and release them, and by which hold a job is kept at all."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from datetime import datetime, timedelta
from pathlib import Path

import pytest

from holdfast.core.access import Actor
from holdfast.core.audit import AuditQuery
from holdfast.core.errors import Conflict, Forbidden, NotFound, UserError
from holdfast.core.job import Hold, HoldScope, Job
from holdfast.core.records import Group, JobFilter, JobSummary
from holdfast.core.states import JobState
from holdfast.services.jobs.validation import HOLDS_DISABLED_WARNING
from holdfast.services.people.groups import GroupChange
from tests.fake_engine import FakeEngine

from .house import House, open_house

pytestmark = pytest.mark.anyio

WEEK, DAY = timedelta(days=7), timedelta(days=1)
CRASH = "name: crash\ncommand: echo hello; exit 3\n"
HELD = f"{CRASH}hold: true\n"
PAIR = "name: pair\nhold: true\nroles: {a: {command: exit 2}, b: {command: exit 4}}\n"
GOOD = "name: good\nhold: true\ncommand: sleep 100\n"
NOT_HELD = Hold(keep=HoldScope.NOTHING)


@pytest.fixture
async def house(tmp_path: Path) -> AsyncIterator[House]:
    async with open_house(tmp_path / "home") as house:
        house.controller.clock = house.clock.now
        yield house


async def held(house: House, text: str = HELD, actor: Actor | None = None) -> JobSummary:
    return await house.until((await house.submit(text, actor)).id, JobState.HELD)


async def spec(house: House, ref: str) -> Job:
    return (await house.services.jobs.load_detail(house.admin, ref)).job


def now(house: House) -> datetime:
    return house.clock.now()


# -- extending


async def test_a_hold_is_extended(house: House) -> None:
    job = await held(house)
    (found,) = house.services.holds.list_held_tasks(job.id)
    assert (found.task, found.held.until, found.held.keep) == ("main-0", now(house) + WEEK, HoldScope.ALL)
    assert found.latest == now(house) + 4 * WEEK
    (later,) = (await house.services.holds.extend(house.admin, job.id, by=3 * DAY)).tasks
    assert later.held.until == now(house) + 10 * DAY
    changed = await house.services.holds.extend(house.admin, "crash", until=now(house) + 2 * DAY, task="main-0")
    (then,) = changed.tasks
    assert (changed.job.id, changed.job.held_until) == (job.id, then.held.until)
    assert then.held.until == now(house) + 2 * DAY
    events = await house.services.jobs.list_events(house.admin, job.id)
    assert [event.actor for event in events if event.kind == "hold-extended"] == ["admin", "admin"]


async def test_without_a_time_it_is_extended_by_the_usual_one_as_far_as_that_goes(house: House) -> None:
    job = await held(house)
    start = now(house)
    ends = [(await house.services.holds.extend(house.admin, job.id)).tasks[0].held.until for _ in range(5)]
    assert ends == [start + 2 * WEEK, start + 3 * WEEK, start + 4 * WEEK, start + 4 * WEEK, start + 4 * WEEK]


async def test_beyond_the_longest_the_latest_is_told_and_nothing_changes(house: House) -> None:
    job = await held(house)
    house.clock.forward(3600)
    with pytest.raises(UserError, match="main-0 can be held only until 2026-03-29 12:00 UTC"):
        await house.services.holds.extend(house.admin, job.id, by=22 * DAY)
    with pytest.raises(UserError, match="can be held only until"):
        await house.services.holds.extend(house.admin, job.id, by=timedelta.max)
    with pytest.raises(UserError, match="2026-03-01 13:00 UTC is in the past"):
        await house.services.holds.extend(house.admin, job.id, until=now(house))
    with pytest.raises(UserError, match="not both"):
        await house.services.holds.extend(house.admin, job.id, by=DAY, until=now(house) + DAY)
    (found,) = house.services.holds.list_held_tasks(job.id)
    assert found.held.until == now(house) - timedelta(hours=1) + WEEK


async def test_each_task_has_its_own_time(house: House) -> None:
    """One of two is extended; by more, each from its own end."""
    text = "name: two\nhold: true\ngang: false\nroles: {a: {command: exit 2, completion: {min_failed: none}}, "
    text += "b: {command: exit 4, completion: {min_failed: none}}, c: {command: sleep 100}}\n"
    job = await held(house, text)
    while len(house.services.holds.list_held_tasks(job.id)) < 2:
        await house.controller.wait_for_change(job.id, 0.01)
    await house.services.holds.extend(house.admin, job.id, by=DAY, task="b-0")
    both = (await house.services.holds.extend(house.admin, job.id, by=DAY)).tasks
    assert [(each.task, each.held.until - now(house)) for each in both] == [("a-0", 8 * DAY), ("b-0", 9 * DAY)]


# -- only the files, and nothing


async def test_only_the_files_are_kept_on(house: House) -> None:
    job = await held(house)
    assert sum(use.node.cpu - use.free.cpu for use in house.controller.get_usage()[0]) == 1.0
    await house.services.holds.keep_files(house.admin, job.id)
    while not house.services.holds.list_held_tasks(job.id)[0].held.ended:
        await house.controller.wait_for_change(job.id, 0.01)
    (found,) = house.services.holds.list_held_tasks(job.id)
    assert (found.held.keep, found.held.until) == (HoldScope.FILES, now(house) + WEEK)
    assert sum(use.node.cpu - use.free.cpu for use in house.controller.get_usage()[0]) == 0.0
    with pytest.raises(Conflict, match="Only the files of main-0 are on hold; the processes have already ended"):
        await house.services.holds.keep_files(house.admin, job.id)
    await house.services.holds.release(house.admin, job.id)
    assert (await house.until(job.id)).state is JobState.FAILED


async def test_a_release_ends_the_job_as_it_had_failed(house: House) -> None:
    job = await held(house)
    found, released = await house.services.holds.release(house.admin, job.id)
    assert (found.id, released) == (job.id, ("main-0",))
    ended = await house.until(job.id)
    assert (ended.state, ended.exit_code, ended.held_until) == (JobState.FAILED, 3, None)
    with pytest.raises(Conflict, match="has ended and has no tasks on hold") as caught:
        await house.services.holds.release(house.admin, job.id)
    assert f"holdfast rerun {job.id} --hold" in str(caught.value.hint)


async def test_a_stop_ends_it_failed_with_its_own_exit(house: House) -> None:
    job = await held(house)
    await house.services.jobs.stop(house.admin, job.id)
    ended = await house.until(job.id)
    assert (ended.state, ended.exit_code) == (JobState.FAILED, 3)


async def test_what_is_not_held(house: House) -> None:
    running = await house.until((await house.submit(GOOD)).id, JobState.RUNNING)
    for verb in (house.services.holds.release, house.services.holds.extend, house.services.holds.keep_files):
        with pytest.raises(Conflict, match=r"good \(.*\) has no tasks on hold"):
            await verb(house.admin, running.id)
        with pytest.raises(Conflict, match="main-0 of good"):
            await verb(house.admin, running.id, task="main-0")
        with pytest.raises(NotFound, match="good has no task main-1"):
            await verb(house.admin, running.id, task="main-1")
        with pytest.raises(NotFound, match="not found"):
            await verb(house.admin, "nothing")


async def test_a_name_means_ones_own_that_is_held_before_those_that_ended(house: House) -> None:
    ann, bob = await house.user("ann", "red"), await house.user("bob", "red")
    text = f"{HELD}group: red\n"
    older, newer = await held(house, text, ann), await held(house, text, ann)
    await held(house, text, bob)
    over = await house.until((await house.submit("name: crash\ngroup: red\ncommand: exit 0\n", ann)).id)
    holds = house.services.holds
    assert (await holds.extend(ann, "crash", by=DAY)).job.id == newer.id
    with pytest.raises(Conflict, match="has ended and has no tasks on hold") as refused:
        await holds.release(ann, over.id)
    assert refused.value.hint is None  # it succeeded
    for job in (newer, older):
        assert (await holds.release(ann, "crash"))[0].id == job.id
        assert (await house.until(job.id)).state is JobState.FAILED
    with pytest.raises(Conflict, match=over.id):
        await holds.release(ann, "crash")  # bob's is not meant


# -- who may


async def test_who_may(house: House) -> None:
    ann, bob = await house.user("ann", "red"), await house.user("bob", "red")
    stranger = await house.user("eve", "blue")
    job = await held(house, f"{HELD}group: red\n", ann)
    with pytest.raises(NotFound):
        await house.services.holds.extend(stranger, job.id)
    reader = Actor(name="eve", groups={"blue": True}, can_read_all_jobs=True)
    with pytest.raises(Forbidden):
        await house.services.holds.release(reader, job.id)
    with pytest.raises(Forbidden, match="only ann and admins of red can do this"):
        await house.services.holds.release(Actor(name="bob", groups={"red": False}, own_only=True), job.id)
    await house.services.holds.extend(bob, job.id, by=DAY)
    await house.services.holds.release(ann, job.id)
    assert (await house.until(job.id)).state is JobState.FAILED


# -- until when, wherever jobs are shown


async def test_a_held_job_tells_until_when(house: House) -> None:
    job = await held(house)
    until = now(house) + WEEK
    assert job.held_until == until
    assert house.services.job_pages.get_hold_end(job.id) == until
    assert (await house.services.jobs.get(house.admin, job.id)).record.summary.held_until == until
    (listed,) = (await house.services.jobs.list(house.admin, JobFilter())).items
    assert listed.held_until == until
    other = await house.run(CRASH)
    assert (other.state, other.held_until) == (JobState.FAILED, None)


# -- by which hold


@pytest.mark.parametrize(
    ("group", "written", "given", "kept"),
    [
        (None, "", None, None),
        (None, "", Hold(), Hold()),
        (None, "hold: 2d\n", None, Hold(duration=2 * DAY)),
        (None, "hold: 2d\n", NOT_HELD, NOT_HELD),
        (Hold(duration=DAY), "", None, Hold(duration=DAY)),
        (Hold(duration=DAY), "hold: {keep: files}\n", None, Hold(keep=HoldScope.FILES)),
        (Hold(duration=DAY), "hold: false\n", None, NOT_HELD),
        (Hold(duration=DAY), "hold: 2d\n", Hold(duration=3 * DAY), Hold(duration=3 * DAY)),
    ],
)
async def test_the_option_then_the_file_then_the_group(
    house: House, group: Hold | None, written: str, given: Hold | None, kept: Hold | None
) -> None:
    await house.services.groups.create(house.admin, Group(name="red", hold=group))
    text = f"{CRASH}group: red\n{written}"
    planned = await house.services.jobs.plan(house.admin, text, hold=given)
    assert planned.job.hold == kept
    assert planned.warnings == ()
    job = await house.submit(text, hold=given)
    assert (await spec(house, job.id)).hold == kept
    ended = await house.until(job.id, JobState.HELD)
    assert ended.state is (JobState.HELD if kept and kept != NOT_HELD else JobState.FAILED)


async def test_a_groups_hold_comes_and_goes(house: House) -> None:
    head = Actor(name="head", groups={"default": True})
    assert (await house.run(CRASH)).state is JobState.FAILED
    change = GroupChange(hold=Hold(duration=DAY, keep=HoldScope.FILES))
    assert (await house.services.groups.change(head, "default", change)).hold == change.hold
    first = await held(house, CRASH)
    await house.services.groups.change(head, "default", GroupChange(hold=None))
    assert (await house.run(CRASH)).state is JobState.FAILED
    again = await house.services.jobs.rerun(house.admin, first.id)  # as it was submitted
    assert (await house.until(again.summary.id, JobState.HELD)).state is JobState.HELD
    with pytest.raises(Forbidden, match="Only admins"):
        await house.services.groups.change(Actor(name="ann", groups={"default": False}), "default", change)
    with pytest.raises(UserError, match="The hold duration must be greater than 0"):
        await house.services.groups.change(head, "default", GroupChange(hold=Hold(duration=timedelta(0))))


async def test_rerun_keeps_what_the_job_had_or_is_told(house: House) -> None:
    failed = await house.run(CRASH)
    again = await house.services.jobs.rerun(house.admin, failed.id, hold=Hold(duration=DAY))
    assert (await house.until(again.summary.id, JobState.HELD)).held_until == now(house) + DAY
    third = await house.services.jobs.rerun(house.admin, again.summary.id)
    assert (await spec(house, third.summary.id)).hold == Hold(duration=DAY)
    fourth = await house.services.jobs.rerun(house.admin, again.summary.id, hold=NOT_HELD)
    assert (await house.until(fourth.summary.id)).state is JobState.FAILED


async def test_what_the_admin_does_not_allow_is_told(tmp_path: Path) -> None:
    async with open_house(tmp_path / "off", settings={"hold": {"enabled": False}}) as house:
        assert HOLDS_DISABLED_WARNING in (await house.services.jobs.submit(house.admin, HELD)).warnings
        assert (await house.services.jobs.submit(house.admin, f"{CRASH}hold: false\n")).warnings == ()
    async with open_house(tmp_path / "short", settings={"hold": {"duration": 3600, "longest": 86400}}) as house:
        done = await house.services.jobs.submit(house.admin, f"{CRASH}hold: 2d\n")
        assert done.warnings == ("this server holds a failed task for at most 1 day",)
        assert (await house.services.jobs.submit(house.admin, HELD)).warnings == ()


async def test_a_groups_hold_is_in_the_record_of_changes(house: House) -> None:
    await house.services.groups.change(house.admin, "default", GroupChange(hold=Hold()))
    await house.services.groups.change(
        house.admin, "default", GroupChange(hold=Hold(duration=WEEK, keep=HoldScope.FILES))
    )
    await house.services.groups.change(house.admin, "default", GroupChange(hold=None))
    found = (await house.services.audit.list(house.admin, AuditQuery(limit=3))).items
    assert [event.detail["hold"] for event in found] == ["off", "files:7d", "on"]


# -- waiting


async def test_a_job_that_was_released_is_waited_for_to_its_end(tmp_path: Path) -> None:
    class SlowToStop(FakeEngine):
        async def stop(self, attempt_id: str, grace: float) -> None: ...  # its processes go when they like

    engine = SlowToStop()
    async with open_house(tmp_path / "home", engine=engine) as house:
        job = await held(house)
        assert (await house.services.jobs.wait(house.admin, job.id, 60, held=True)).state is JobState.HELD
        await house.services.holds.release(house.admin, job.id)
        waiting = asyncio.create_task(house.services.jobs.wait(house.admin, job.id, 60, held=True))
        await asyncio.sleep(0.05)
        assert not waiting.done()
        (attempt,) = engine.machine.tasks
        engine.finish_task(attempt, 143)
        assert (await waiting).state is JobState.FAILED
