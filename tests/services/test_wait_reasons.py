"""Why jobs in a list wait."""

from __future__ import annotations

import pytest

from holdfast.core.records import JobFilter
from holdfast.core.states import JobState
from holdfast.services.why.wait_reasons import MAX_EXPLAINED_JOBS, MAX_EXPLAINED_TASKS

from .house import House

pytestmark = pytest.mark.anyio

BIG = "name: big\ncommand: sleep 9\nresources: {cpu: 4}\n"


async def messages(house: House) -> list[str]:
    """Of those that wait, the newest first."""
    page = await house.services.jobs.list(house.admin, JobFilter(states=(JobState.PENDING,)), limit=100)
    return [job.message for job in page.items]


async def test_a_job_that_waits_says_why(house: House) -> None:
    first = await house.submit(BIG)
    await house.until(first.id, JobState.RUNNING)
    second = await house.submit(BIG)
    reasons = house.controller.list_wait_reasons(second.id)
    assert reasons
    assert await messages(house) == [reasons[0]]
    page = await house.services.jobs.list(house.admin, JobFilter(states=(JobState.RUNNING,)))
    assert page.items[0].message == "Running"


async def test_only_so_many_are_explained_and_none_of_very_many_tasks(house: House) -> None:
    first = await house.submit(BIG)
    await house.until(first.id, JobState.RUNNING)
    for _ in range(MAX_EXPLAINED_JOBS):
        await house.submit(BIG)
    await house.submit(f"{BIG}gang: false\ninstances: {MAX_EXPLAINED_TASKS + 1}\n")
    await house.submit(BIG)
    found = await messages(house)
    assert [bool(text) for text in found] == [True, False, *[True] * (MAX_EXPLAINED_JOBS - 2), False, False]
