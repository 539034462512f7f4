"""What is told of changes, and to those who come late."""

from __future__ import annotations

import asyncio

import pytest

from holdfast.core.states import JobState
from holdfast.services.job_changes import JobChange, JobChanges

from .house import TIMEOUT, House

pytestmark = pytest.mark.anyio


def ids(changes: tuple[JobChange, ...]) -> list[str]:
    return [change.job for change in changes]


async def test_each_listener_reads_from_its_own_mark() -> None:
    changes = JobChanges()
    first = changes.mark
    changes.publish_job_change("job-1", "default", "ann")
    second = changes.mark
    changes.publish_job_change("job-2", "default", "ann")
    assert ids(changes.get_changes_since(first).jobs) == ["job-1", "job-2"]
    assert ids(changes.get_changes_since(second).jobs) == ["job-2"]
    assert not changes.get_changes_since(changes.mark)


async def test_who_is_too_slow_looks_at_everything_and_nothing_grows() -> None:
    changes = JobChanges(remembered=3)
    mark = changes.mark
    for n in range(100):
        changes.publish_job_change(f"job-{n}", "default", "ann")
    late = changes.get_changes_since(mark)
    assert late.everything
    assert not late.jobs
    assert not changes.get_changes_since(late.mark)


async def test_marks_that_nobody_gave_mean_everything() -> None:
    changes = JobChanges()
    epoch = changes.mark.partition(".")[0]
    for mark in ("", "x", f"{epoch}.", f"{epoch}.5", f"{epoch}.-1", f"{epoch}." + "9" * 500, "0.0", f"{epoch}.²"):
        assert changes.get_changes_since(mark).everything


async def test_why_jobs_wait_is_told_once_until_something_else_is() -> None:
    changes = JobChanges(remembered=3)
    mark = changes.mark
    for _ in range(10):
        changes.publish_wait_reasons()
    news = changes.get_changes_since(mark)
    assert news.waiting
    assert not news.jobs
    assert not news.everything


async def test_a_listener_wakes_when_something_is_told() -> None:
    changes = JobChanges()
    listening = asyncio.create_task(changes.wait_for_changes(changes.mark))
    await asyncio.sleep(0)
    changes.publish_job_change("job-1", "default", "ann")
    assert ids((await asyncio.wait_for(listening, 20)).jobs) == ["job-1"]


JOB = "name: told\ncommand: sleep 100\nresources: {cpu: %s}\n"


async def heard(house: House, mark: str, job: str) -> str:
    """A mark after this job was told of."""
    async with asyncio.timeout(TIMEOUT):
        while True:
            news = await house.services.changes.wait_for_changes(mark)
            mark = news.mark
            if job in ids(news.jobs):
                return mark


async def test_what_happens_to_a_job_is_told_after_it_can_be_read(house: House) -> None:
    mark = house.services.changes.mark
    job = await house.submit(JOB % 1)
    mark = await heard(house, mark, job.id)
    await house.until(job.id, JobState.RUNNING)
    mark = await heard(house, mark, job.id)
    await house.services.jobs.tag(house.admin, job.id, "seen")
    mark = await heard(house, mark, job.id)
    await house.services.jobs.stop(house.admin, job.id)
    await heard(house, mark, job.id)


async def test_why_jobs_wait_is_told_when_another_one_ends(house: House) -> None:
    whole = house.engine.list_nodes()[0].cpu
    first, _, third = [await house.submit(JOB % whole) for _ in range(3)]
    await house.until(first.id, JobState.RUNNING)
    changes = house.services.changes
    mark, before = changes.mark, house.controller.list_wait_reasons(third.id)
    await house.services.jobs.stop(house.admin, first.id)
    async with asyncio.timeout(TIMEOUT):
        while not (news := await changes.wait_for_changes(mark)).waiting:
            mark = news.mark
    assert before


async def test_nobody_who_listens_means_nothing_to_do(house: House) -> None:
    """What is told lies where it lay: no task, no queue and no timer comes of it."""
    before = len(asyncio.all_tasks())
    for number in range(100):
        house.services.changes.publish_job_change(f"job-{number}", "default", "ann")
    assert len(asyncio.all_tasks()) == before
