"""What is concluded of jobs: kept once they end, worked out while they go on."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

import pytest
from sqlalchemy import text

from holdfast.core.states import JobState
from holdfast.core.verdicts import Confidence, Diagnosis, EvidenceKind, Fault, Insight
from holdfast.engines.base import LogStream
from holdfast.services.why.diagnoses import HEAD_SIZE, TAIL_SIZE
from holdfast.services.why.insights import Insights
from holdfast.store.jobs import insights as insight_rows
from holdfast.store.jobs import records as job_rows
from holdfast.store.jobs.records import JobDetail

from .house import TIMEOUT, House

pytestmark = pytest.mark.anyio

BROKEN = """
name: broken
command: |
  echo loading
  echo ModuleNotFoundError: No module named 'torch' >&2
  exit 1
"""
RANKS = """
name: ranks
roles:
  worker:
    instances: 2
    command: sleep 600
resources: {cpu: 0.5}
"""


async def record_of(house: House, job_id: str) -> JobDetail:
    return await house.store.read(job_rows.load_job_detail, job_id)


async def kept(house: House, seq: int) -> Insight | None:
    return await house.store.read(insight_rows.find_insight, seq)


@asynccontextmanager
async def at_work(insights: Insights) -> AsyncIterator[None]:
    task = asyncio.create_task(insights.run())
    try:
        yield
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task


async def test_a_verdict_is_kept_when_a_job_ends(house: House) -> None:
    insights = house.services.insights
    house.controller.add_end_listener(insights.enqueue_ended_job)
    async with at_work(insights), asyncio.timeout(TIMEOUT):
        job = await house.run(BROKEN)
        while (found := await kept(house, job.seq)) is None:
            await asyncio.sleep(0.01)
    assert found.diagnosis is not None
    assert found.diagnosis.fault is Fault.MISSING_MODULE
    assert found.diagnosis.task == "main-0"


async def test_what_nobody_worked_out_is_worked_out_when_asked_and_kept(house: House) -> None:
    job = await house.run(BROKEN)
    assert await kept(house, job.seq) is None
    record = await record_of(house, job.id)
    first, second = await asyncio.gather(
        house.services.insights.load_insight(record), house.services.insights.load_insight(record)
    )
    assert first == second == await kept(house, job.seq)
    assert first.diagnosis is not None
    log = next(each for each in first.diagnosis.evidence if each.kind is EvidenceKind.LOG)
    assert log.offset == len("loading\n")


async def test_jobs_that_did_not_fail_have_no_verdict(house: House) -> None:
    done = await house.run("{name: a, command: exit 0}")
    assert (await house.services.insights.load_insight(await record_of(house, done.id))).diagnosis is None
    stopped = await house.submit("{name: b, command: sleep 600}")
    await house.until(stopped.id, JobState.RUNNING)
    assert (await house.services.insights.load_insight(await record_of(house, stopped.id))).diagnosis is None
    await house.services.jobs.stop(house.admin, stopped.id)
    await house.until(stopped.id)
    assert (await house.services.insights.load_insight(await record_of(house, stopped.id))).diagnosis is None


async def test_the_first_task_is_found_by_when_it_ended(house: House) -> None:
    job = await house.submit(RANKS)
    await house.until(job.id, JobState.RUNNING)
    first, second = sorted(house.engine.list_running())
    house.engine.write_log(second, b"OSError: [Errno 28] No space left on device\n")
    house.engine.write_log(first, b"RuntimeError: NCCL error in: x.cpp:1, remote process exited\n")
    house.engine.finish_task(first, 1)
    house.engine.finish_task(second, 1)
    await house.until(job.id)
    found = (await house.services.insights.load_insight(await record_of(house, job.id))).diagnosis
    assert found is not None
    assert (found.task, found.fault) == ("worker-1", Fault.DISK_FULL)
    assert found.followers == ("worker-0",)


async def test_a_held_job_has_a_verdict_that_is_not_kept_yet(house: House) -> None:
    job = await house.submit("{name: a, hold: true, command: sleep 600}")
    await house.until(job.id, JobState.RUNNING)
    (id,) = house.engine.list_running()
    house.engine.write_log(id, b"OSError: [Errno 28] No space left on device\n")
    house.engine.fail_task(id, 1)
    await house.until(job.id, JobState.HELD)
    found = (await house.services.insights.load_insight(await record_of(house, job.id))).diagnosis
    assert found is not None
    assert (found.fault, found.task) == (Fault.DISK_FULL, "main-0")
    assert await kept(house, job.seq) is None


async def test_of_a_held_job_our_own_lines_are_not_quoted_and_the_way_in_is_told(house: House) -> None:
    job = await house.submit("{name: a, hold: true, command: sleep 600}")
    await house.until(job.id, JobState.RUNNING)
    (id,) = house.engine.list_running()
    house.engine.write_log(id, b"the oracle is displeased\n")
    house.engine.fail_task(id, 7)
    await house.until(job.id, JobState.HELD)
    found = (await house.services.explanations.explain_job(house.admin, job.id)).failure
    assert found is not None
    assert [each.text for each in found.evidence if each.kind is EvidenceKind.LOG] == ["the oracle is displeased"]
    assert any(f"`holdfast ssh {job.id} main-0`" in remedy for remedy in found.remedies)
    assert not any("submit the job again" in remedy for remedy in found.remedies)


async def test_between_two_tries_the_verdict_is_on_the_last_one(house: House) -> None:
    job = await house.submit("{name: a, retry: 3, command: sleep 600}")
    await house.until(job.id, JobState.RUNNING)
    (id,) = house.engine.list_running()
    house.engine.write_log(id, b"cat: x: No such file or directory\n")
    house.engine.finish_task(id, 1)
    async with asyncio.timeout(TIMEOUT):
        while (live := house.controller.get_active_job(job.id)) is None or not live.user_retries:
            await house.controller.wait_for_change(job.id, 0.05)
    found = (await house.services.insights.load_insight(await record_of(house, job.id))).diagnosis
    assert found is not None
    assert (found.fault, found.attempt) == (Fault.MISSING_FILE, 0)


async def test_only_the_ends_of_a_huge_log_are_read(house: House) -> None:
    job = await house.submit("{name: a, command: sleep 600}")
    await house.until(job.id, JobState.RUNNING)
    (id,) = house.engine.list_running()
    filler = b"step\n" * ((HEAD_SIZE + TAIL_SIZE) // 2)
    house.engine.write_log(id, filler + b"cat: /data/x: No such file or directory\n")
    house.engine.finish_task(id, 1)
    await house.until(job.id)
    found = (await house.services.insights.load_insight(await record_of(house, job.id))).diagnosis
    assert found is not None
    assert found.fault is Fault.MISSING_FILE
    assert found.evidence[0].offset == len(filler)


async def test_errors_that_other_output_pushed_away_are_looked_for_in_their_own_stream(house: House) -> None:
    job = await house.submit("{name: a, command: sleep 600}")
    await house.until(job.id, JobState.RUNNING)
    (id,) = house.engine.list_running()
    trace = b'Traceback (most recent call last):\n  File "/w/a.py", line 3, in <module>\n    f()\nKeyError: 1\n'
    house.engine.write_log(id, b"step\n" * HEAD_SIZE)
    house.engine.write_log(id, trace, LogStream.STDERR)
    house.engine.write_log(id, b"step\n" * TAIL_SIZE)
    house.engine.finish_task(id, 1)
    await house.until(job.id)
    found = (await house.services.insights.load_insight(await record_of(house, job.id))).diagnosis
    assert found is not None
    assert found.title == "KeyError: 1"


class Counting:
    """Diagnoses that are made one at a time, and counted."""

    def __init__(self) -> None:
        self.made = 0
        self.at_once = 0
        self.most = 0

    async def diagnose_job(self, record: JobDetail) -> Diagnosis | None:
        self.made += 1
        self.at_once += 1
        self.most = max(self.most, self.at_once)
        await asyncio.sleep(0)
        self.at_once -= 1
        if record.summary.name == "bug":
            raise RuntimeError("cannot be judged")
        return Diagnosis(fault=Fault.UNKNOWN, title="x", explanation="y", confidence=Confidence.POSSIBLE)


async def test_many_ends_are_looked_at_a_few_at_a_time_and_a_bug_stops_none(house: House) -> None:
    jobs = [await house.run(f"{{name: {name}, command: exit 1}}") for name in ("a", "bug", "c", "d", "e", "f")]
    counting = Counting()
    insights = Insights(house.store, counting, monotonic=lambda: 0.0)
    for job in jobs:
        insights.enqueue_job(job.id)
        insights.enqueue_job(job.id)
    insights.enqueue_job("job-that-is-not-there")
    async with at_work(insights), asyncio.timeout(TIMEOUT):
        while counting.made < len(jobs) or await kept(house, jobs[-1].seq) is None:  # two run at a time
            await asyncio.sleep(0.01)
    assert counting.made == len(jobs)
    assert counting.most <= 2
    assert await kept(house, jobs[1].seq) is None


async def test_a_short_job_that_went_well_is_not_looked_at(house: House) -> None:
    insights = house.services.insights
    looked: list[str] = []
    insights.enqueue_job = looked.append  # type: ignore[method-assign]
    house.controller.add_end_listener(insights.enqueue_ended_job)
    await house.run("{name: quick, command: 'true'}")
    failed = await house.run(BROKEN)
    assert looked == [failed.id]


async def test_nothing_is_kept_of_a_short_job_that_went_well(house: House) -> None:
    job = await house.run("{name: quick, command: 'true'}")
    assert (await house.services.explanations.explain_job(house.admin, job.id)).failure is None
    assert await kept(house, job.seq) is None


async def test_a_fault_of_ours_leaves_a_job_without_a_verdict_and_nothing_is_kept(
    house: House, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    job = await house.run(BROKEN)
    with monkeypatch.context() as broken:
        broken.setattr("holdfast.services.why.diagnoses.diagnose_job", lambda case: 1 / 0)
        assert (await house.services.explanations.explain_job(house.admin, job.id)).failure is None
    assert "could not analyze a job" in caplog.text
    with monkeypatch.context() as broken:
        broken.setattr(insight_rows, "list_ended_tasks", None)
        assert (await house.services.explanations.explain_job(house.admin, job.id)).failure is None
    with monkeypatch.context() as broken:
        broken.setattr(insight_rows, "save_insight", None)
        assert (await house.services.explanations.explain_job(house.admin, job.id)).failure is not None
    assert await kept(house, job.seq) is None
    assert (await house.services.explanations.explain_job(house.admin, job.id)).failure == (
        await kept(house, job.seq)
    ).diagnosis


@pytest.mark.parametrize("damaged", ["{", '{"fault": "of another version"}', "[]"])
async def test_a_row_that_cannot_be_read_is_worked_out_anew_and_left_as_it_is(
    house: House, caplog: pytest.LogCaptureFixture, damaged: str
) -> None:
    job = await house.run(BROKEN)
    first = (await house.services.explanations.explain_job(house.admin, job.id)).failure
    change = text("UPDATE job_insights SET diagnosis_json = :damaged WHERE job_seq = :seq")
    await house.store.write(lambda conn: conn.execute(change, {"damaged": damaged, "seq": job.seq}) and None)
    assert (await house.services.explanations.explain_job(house.admin, job.id)).failure == first
    assert "could not read the stored insight of a job" in caplog.text
    assert await house.store.read(insight_rows.load_diagnoses, [job.seq]) == {}
    with pytest.raises(ValueError, match="validation error"):
        await kept(house, job.seq)


async def test_a_job_that_goes_on_is_not_looked_at_again_at_once(house: House) -> None:
    job = await house.submit("{name: a, command: sleep 600}")
    await house.until(job.id, JobState.RUNNING)
    counting = Counting()
    now = [0.0]
    insights = Insights(house.store, counting, monotonic=lambda: now[0])
    record = await record_of(house, job.id)
    await insights.load_insight(record)
    await insights.load_insight(record)
    assert counting.made == 1
    now[0] += 60
    await insights.load_insight(record)
    assert counting.made == 2
    assert await kept(house, job.seq) is None
