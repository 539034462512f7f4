"""What is gathered of a job before it is judged: its logs, within one limit, and its errors where a log is torn."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from holdfast.core.states import JobState
from holdfast.core.verdicts import Confidence, Diagnosis
from holdfast.engines.base import LogStream
from holdfast.services.why import diagnoses
from holdfast.store.jobs import records as job_rows
from tests.services.house import House, open_house

pytestmark = pytest.mark.anyio


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture
async def house(tmp_path: Path) -> AsyncIterator[House]:
    async with open_house(tmp_path / "home") as opened:
        yield opened


async def verdict_on(place: House, job_id: str) -> Diagnosis:
    record = await place.store.read(job_rows.load_job_detail, job_id)
    found = (await place.services.insights.load_insight(record)).diagnosis
    assert found is not None
    return found


async def test_a_traceback_that_other_output_tore_apart_is_read_from_the_errors(house: House) -> None:
    job = await house.submit("{name: a, command: sleep 600}")
    await house.until(job.id, JobState.RUNNING)
    (id,) = house.engine.list_running()
    house.engine.write_log(id, b"Traceback (most recent call last):\n", LogStream.STDERR)
    house.engine.write_log(id, b"wandb: Synced 1 media file(s)\n" * 30)
    house.engine.write_log(
        id, b'  File "/w/a.py", line 3, in f\n    f()\nZeroDivisionError: division by zero\n', LogStream.STDERR
    )
    house.engine.finish_task(id, 1)
    await house.until(job.id)
    found = await verdict_on(house, job.id)
    assert (found.title, found.confidence) == ("ZeroDivisionError: division by zero", Confidence.CERTAIN)
    assert found.frame is not None
    assert (found.frame.file, found.frame.line) == ("/w/a.py", 3)


class Hanging:
    """A log that cannot be reached: it never answers."""

    async def get_size(self) -> int:
        await asyncio.Event().wait()
        return 0


async def test_all_logs_of_a_job_are_read_within_one_limit(house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    job = await house.submit("{name: a, roles: {w: {instances: 8, command: sleep 600}}, resources: {cpu: 0.1}}")
    await house.until(job.id, JobState.RUNNING)
    for id in sorted(house.engine.list_running()):
        house.engine.finish_task(id, 3)
    await house.until(job.id)
    asked: list[str] = []

    def log(attempt_id: str, _stream: LogStream) -> Hanging:
        asked.append(attempt_id)
        return Hanging()

    monkeypatch.setattr(house.engine, "open_log", log)
    monkeypatch.setattr(diagnoses, "LOG_TIMEOUT", 0.2)
    monkeypatch.setattr(diagnoses, "TOTAL_LOG_TIMEOUT", 0.3)
    assert "3" in (await verdict_on(house, job.id)).title
    assert 1 <= len(asked) <= 2
