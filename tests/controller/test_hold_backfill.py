"""A job that may be held when it fails promises no early end, so it passes nobody."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import pytest

from holdfast.core.job import Hold, HoldScope
from holdfast.core.records import Group
from holdfast.core.scheduling.placement import Quota
from holdfast.core.states import JobState

from .test_loop import a_job, run, running

LONG, SHORT = timedelta(hours=2), timedelta(minutes=10)


@pytest.mark.parametrize(
    ("hold", "passes"),
    [
        (None, True),
        (Hold(keep=HoldScope.FILES), True),
        (Hold(keep=HoldScope.NOTHING), True),
        (Hold(duration=SHORT), False),
    ],
)
def test_passing_the_head_of_the_queue(tmp_path: Path, hold: Hold | None, passes: bool) -> None:
    async def story() -> None:
        group = Group(name="default", quota=Quota(cpu=3))
        async with running(tmp_path, groups=[group], backfill=True) as place:
            first = await place.submit(a_job(cpu=2.0, time_limit=LONG))
            await place.until(first, JobState.RUNNING)
            head = await place.submit(a_job(cpu=3.0, time_limit=LONG))
            await place.reasons(head)
            short = await place.submit(a_job(cpu=1.0, time_limit=SHORT, hold=hold))
            if passes:
                await place.until(short, JobState.RUNNING)
            else:
                assert await place.reasons(short)

    run(story)
