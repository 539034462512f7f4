"""How often a job was tried again, in words."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from holdfast.cli.showing import show_job
from holdfast.sdk import JobDetail, JobState
from holdfast.sdk.models import Retries


@pytest.mark.parametrize(
    ("own", "platform", "said"),
    [
        (0, 4, "3, after 4 retries by the platform"),
        (1, 0, "3, after 1 retry of its own"),
        (2, 1, "3, after 2 retries of its own and 1 by the platform"),
        (0, 0, "3"),
    ],
)
def test_retries(own: int, platform: int, said: str, capsys: pytest.CaptureFixture[str]) -> None:
    job = JobDetail(
        id="job-1",
        name="train",
        state=JobState("Running"),
        submitted_at=datetime(2026, 1, 1, tzinfo=UTC),
        attempt=3,
        retries=Retries(user=own, platform=platform),
    )
    show_job(job, ())
    assert f"  attempt     {said}\n" in capsys.readouterr().out
