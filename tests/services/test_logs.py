from __future__ import annotations

import asyncio
from datetime import timedelta

import pytest

from holdfast.core.access import Actor
from holdfast.core.attempt import Observation, ObservedState
from holdfast.core.errors import Expired, NotFound
from holdfast.core.states import JobState, TaskState
from holdfast.engines.base import LaunchSpec, LogStream
from holdfast.services.errors import LogNotFound
from holdfast.services.logs.reading import iter_span_chunks
from holdfast.services.logs.service import LogSelection, TaskLog
from holdfast.store.jobs import records as job_rows

from .house import House

pytestmark = pytest.mark.anyio

TALKER = "name: talker\ncommand: |\n  echo out\n  echo err >&2\n  exit 4\n"


async def choose(house: House, ref: str, actor: Actor | None = None, **more: object) -> TaskLog:
    return await house.services.logs.select_log(actor or house.admin, LogSelection(ref=ref, **more))  # type: ignore[arg-type]


async def text(house: House, chosen: TaskLog) -> bytes:
    source = house.services.logs.open_source(chosen)
    span = await house.services.logs.get_full_span(source)
    return b"".join([chunk async for chunk in iter_span_chunks(source, span)])


async def followed(house: House, chosen: TaskLog, start: int = 0) -> bytes:
    return b"".join([data async for _, data in house.services.logs.follow_log(chosen, start)])


async def test_streams_are_apart_and_together(house: House) -> None:
    job = await house.run(TALKER)
    assert await text(house, await choose(house, job.id, stream=LogStream.STDOUT)) == b"out\n"
    assert await text(house, await choose(house, job.id, stream=LogStream.STDERR)) == b"err\n"
    assert await text(house, await choose(house, job.id)) == b"out\nerr\n"


async def test_each_try_has_its_log(house: House) -> None:
    job = await house.run("name: r\nretry: 1\ncommand: |\n  echo again\n  exit 1\n")
    newest = await choose(house, job.id)
    oldest = await choose(house, job.id, attempt=0)
    assert (newest.record.attempt, oldest.record.attempt) == (1, 0)
    assert await text(house, oldest) == b"again\n"
    with pytest.raises(NotFound):
        await choose(house, job.id, attempt=2)
    with pytest.raises(NotFound):
        await choose(house, job.id, number=1)


async def test_the_first_task_is_that_of_the_first_role(house: House) -> None:
    job = await house.run("name: two\nroles:\n  z: {command: echo z}\n  a: {command: echo a}\n")
    assert (await choose(house, job.id)).record.task.task == "z-0"
    assert await text(house, await choose(house, job.id, task="a-0")) == b"a\n"


async def test_roles_with_numbers_in_their_names(house: House) -> None:
    roles = "  a: {command: echo a, instances: 2}\n  a-1: {command: echo a-1, instances: 2}\n"
    job = await house.run(f"name: two\nroles:\n{roles}")
    for task, written in (("a-1", b"a\n"), ("a-1-1", b"a-1\n")):
        chosen = await choose(house, job.id, task=task)
        assert chosen.record.task.task == task
        assert await text(house, chosen) == written


@pytest.mark.parametrize(
    "task", ["../../etc/passwd", "main-1", "main", "", "main-0/../main-0", "main-0\0", "main-00", "main-٠", "x" * 300]
)
async def test_odd_tasks_are_not_there(house: House, task: str) -> None:
    job = await house.run(TALKER)
    if task == "":
        assert (await choose(house, job.id, task=task)).record.task.task == "main-0"
        return
    with pytest.raises(NotFound):
        await choose(house, job.id, task=task)


async def test_other_groups_logs_are_not_there(house: House) -> None:
    alice, bob = await house.user("alice", "lab"), await house.user("bob", "shop")
    job = await house.run(TALKER, alice)
    await choose(house, job.id, alice)
    with pytest.raises(NotFound):
        await choose(house, job.id, bob)


async def test_a_removed_log_says_when_it_went(house: House) -> None:
    job = await house.run(TALKER)
    attempt_id = f"{job.id}.0.main-0.0"
    await house.engine.remove_logs(attempt_id)
    await house.store.write(job_rows.mark_logs_removed, [attempt_id], house.clock.now())
    chosen = await choose(house, job.id)
    with pytest.raises(Expired, match="expired on 2026-03-01"):
        house.services.logs.open_source(chosen)
    with pytest.raises(Expired):
        house.services.logs.check_follow(chosen)


async def test_what_has_not_started_has_no_log_yet(house: House) -> None:
    await house.submit("name: big\ncommand: sleep 9\nresources: {cpu: 4}\n")
    job = await house.submit(TALKER)
    chosen = await choose(house, job.id)
    with pytest.raises(LogNotFound, match="not started yet"):
        house.services.logs.open_source(chosen)
    house.services.logs.check_follow(chosen)


async def test_what_never_started_never_has_one(house: House) -> None:
    job = await house.run("name: x\nimage: nowhere\ncommand: exit 0\n")
    assert job.state is JobState.FAILED
    with pytest.raises(LogNotFound, match="never started"):
        house.services.logs.open_source(await choose(house, job.id))
    with pytest.raises(LogNotFound, match="never started"):
        house.services.logs.check_follow(await choose(house, job.id))


async def test_following_waits_for_the_start_and_ends_with_the_task(house: House) -> None:
    big = await house.submit("name: big\ncommand: sleep 9\nresources: {cpu: 4}\n")
    job = await house.submit(TALKER)
    await house.until(big.id, JobState.RUNNING)
    chosen = await choose(house, job.id)
    following = asyncio.create_task(followed(house, chosen))
    await house.services.jobs.stop(house.admin, big.id)
    assert await asyncio.wait_for(following, 20) == b"out\nerr\n"
    ended = await house.services.logs.wait_for_end_state(chosen)
    assert (ended.task_state, ended.exit_code) == (TaskState.FAILED, 4)


async def test_following_what_is_stopped_before_it_starts_ends(house: House) -> None:
    await house.submit("name: big\ncommand: sleep 9\nresources: {cpu: 4}\n")
    job = await house.submit(TALKER)
    following = asyncio.create_task(followed(house, await choose(house, job.id)))
    await asyncio.sleep(0)
    await house.services.jobs.stop(house.admin, job.id)
    assert await asyncio.wait_for(following, 20) == b""


async def test_since_gives_what_came_after(house: House) -> None:
    job = await house.run(TALKER)
    source = house.services.logs.open_source(await choose(house, job.id))
    everything = await house.services.logs.get_span_since(source, house.clock.now() - timedelta(days=36500))
    nothing = await house.services.logs.get_span_since(source, house.clock.now() + timedelta(days=36500))
    assert (everything.start, everything.end) == (0, 8)
    assert (nothing.start, nothing.end) == (8, 8)


TWO_ROLES = "name: two\nroles:\n  a: {command: exit 0}\n  b: {command: exit 3, instances: 2}\n"


async def test_the_task_that_made_it_fail_is_shown_first(house: House) -> None:
    job = await house.run(f"{TWO_ROLES}retry: 1\n")
    detail = (await house.services.jobs.get(house.admin, job.id)).record
    assert detail.outcome is not None
    assert detail.outcome.role == "b"
    assert (await choose(house, job.id)).record.task.task == detail.outcome.task
    past = await house.services.jobs.list_past_attempts(house.admin, job.id)
    assert (await choose(house, job.id, attempt=0)).record.task.task == past[0].outcome.task
    assert (await choose(house, job.id, task="a-0")).record.task.task == "a-0"


async def test_it_is_shown_before_the_next_attempt_begins_too(house: House) -> None:
    job = await house.submit(f"{TWO_ROLES}retry: -1\n")
    async with asyncio.timeout(20):
        while (live := house.controller.get_active_job(job.id)) is not None and live.user_retries < 5:
            await house.controller.wait_for_change(job.id, 1.0)
    assert live is not None
    assert live.retry_at is not None
    assert (await choose(house, job.id)).record.task.role == "b"
    await house.services.jobs.stop(house.admin, job.id)
    await house.until(job.id)


async def test_the_first_one_is_shown_when_no_task_decided_alone(house: House) -> None:
    job = await house.run("name: all\nroles:\n  a: {command: echo a}\n  b: {command: echo b}\n")
    assert (await choose(house, job.id)).record.task.task == "a-0"


async def test_a_try_that_never_started_says_why_itself(house: House) -> None:
    def refuse(launch: LaunchSpec) -> Observation:
        house.engine.refuse = lambda _: None
        return Observation(
            attempt_id=launch.attempt_id, seen=ObservedState.REFUSED, message="no room left", transient=True
        )

    house.engine.refuse = refuse
    job = await house.run("name: x\ncommand: exit 7\n")
    assert job.attempt == 1
    with pytest.raises(LogNotFound, match="main-0 never started, so there is no log: no room left") as refused:
        house.services.logs.open_source(await choose(house, job.id, attempt=0))
    assert "7" not in f"{refused.value.message}{refused.value.hint}"


async def test_a_job_that_was_refused_says_so_once(house: House) -> None:
    job = await house.run("name: big\ncommand: exit 0\nresources: {cpu: 400}\n")
    with pytest.raises(LogNotFound, match=r"main-0 never started, so there is no log: The job was rejected$"):
        house.services.logs.open_source(await choose(house, job.id))


async def test_tasks_may_be_spelled_plainly(house: House) -> None:
    job = await house.run("name: odd\nroles:\n  Work_er: {command: echo hi, instances: 2}\n")
    assert (await choose(house, job.id, task="worker-1")).record.task.task == "Work_er-1"
    with pytest.raises(NotFound) as refused:
        await choose(house, job.id, task="worker-2")
    assert "Work_er-0, Work_er-1" in (refused.value.hint or "")
