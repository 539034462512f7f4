"""Why jobs wait, failed or are as they are: real situations, through the services."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import AsyncIterator
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest

from holdfast.core.access import Actor
from holdfast.core.attempt import Observation, ObservedState
from holdfast.core.errors import NotFound
from holdfast.core.exits.exit import Cause
from holdfast.core.job import GIB
from holdfast.core.records import Dataset, Group, JobSummary
from holdfast.core.scheduling.blockers import Blocker, BlockerKind, WaitExplanation
from holdfast.core.scheduling.placement import Node, Quota, ResourceAmount
from holdfast.core.states import JobState
from holdfast.core.verdicts import EvidenceKind
from holdfast.services.people.groups import GroupChange
from holdfast.services.why.service import JobExplanation
from tests.fake_engine import FakeEngine

from .house import LIMITS, TIMEOUT, House, open_house

pytestmark = pytest.mark.anyio

DAY = timedelta(days=1)
NODES = [Node(name=name, cpu=8, memory=16 * GIB, gpus=(0, 1, 2, 3)) for name in ("north", "south")]


@pytest.fixture
async def house(tmp_path: Path) -> AsyncIterator[House]:
    async with open_house(tmp_path / "home") as house:
        house.controller.clock = house.clock.now
        yield house


@pytest.fixture
async def cluster(tmp_path: Path) -> AsyncIterator[House]:
    """Two machines with four GPUs each."""
    async with open_house(tmp_path / "home", engine=FakeEngine(nodes=NODES)) as house:
        house.controller.clock = house.clock.now
        yield house


def sleeper(name: str, cpu: float = 1, gpu: int = 0, **more: object) -> str:
    """It goes on until somebody ends it."""
    fields = "".join(f"{key}: {value}\n" for key, value in more.items())
    return f"name: {name}\ncommand: sleep 9\nresources: {{cpu: {cpu}, memory: 1Gi, gpu: {gpu}}}\n{fields}"


async def submit(house: House, text: str, actor: Actor | None = None) -> JobSummary:
    """A moment after all that were submitted before: of the same instant, chance decides which is the older one."""
    house.clock.forward(1)
    return await house.submit(text, actor)


async def running(house: House, text: str, actor: Actor | None = None) -> str:
    job = await house.submit(text, actor)
    return (await house.until(job.id, JobState.RUNNING)).id


async def waiting(house: House, ref: str, actor: Actor | None = None) -> WaitExplanation:
    found = (await house.services.explanations.explain_job(actor or house.admin, ref)).waiting
    assert found is not None
    return found


def texts(wait: WaitExplanation) -> list[str]:
    return [blocker.text for blocker in wait.blockers]


def of_kind(wait: WaitExplanation, kind: BlockerKind) -> list[Blocker]:
    return [blocker for blocker in wait.blockers if blocker.kind is kind]


async def test_who_has_it_since_when_and_when_it_starts(house: House) -> None:
    now = house.clock.now()
    first = await running(house, sleeper("first", cpu=3, time_limit="2h"))
    job = await house.submit(sleeper("next", cpu=2))
    wait = await waiting(house, job.id)
    assert texts(wait) == ["It requests 2 cores, 1 GiB of memory; free: 1 core, 15 GiB of memory."]
    (holder,) = wait.blockers[0].holders
    assert (holder.job_id, holder.name, holder.user, holder.has) == (first, "first", "admin", ResourceAmount(cpu=3))
    latest = now + timedelta(hours=2) + LIMITS.grace
    assert holder.since == now
    assert holder.until is not None
    assert wait.estimate is not None
    assert wait.estimate.at is not None
    assert abs(holder.until - latest) < timedelta(minutes=1)  # by a clock that does not jump
    assert abs(wait.estimate.at - latest) < timedelta(minutes=1)
    assert wait.helps[0] == "It would start now if it requested 1 core instead of 2."
    assert wait.helps[1].startswith(f"It would start when job first ({first}) of user admin has ended, at 2026-03-01 1")
    await house.services.jobs.stop(house.admin, job.id)
    less = await house.submit(sleeper("less", cpu=1))
    await house.until(less.id, JobState.RUNNING)


async def test_when_it_starts_going_by_how_long_such_jobs_took(house: House) -> None:
    house.engine._now = house.clock.now
    for minutes in (9, 10, 20):
        job = await running(house, sleeper("train", cpu=3))
        house.clock.forward(minutes * 60)
        house.engine.finish_task(house.engine.list_running()[0])
        await house.until(job)
    await running(house, sleeper("train", cpu=3, time_limit=0))
    job = (await submit(house, sleeper("next", cpu=2))).id
    estimate = (await waiting(house, job)).estimate
    assert estimate is not None
    assert estimate.at is None
    assert estimate.likely is not None
    assert abs(estimate.likely - house.clock.now() - timedelta(minutes=10)) < timedelta(minutes=1)


async def test_one_line_reasons_are_made_of_the_same(house: House) -> None:
    await running(house, sleeper("first", cpu=4))
    await submit(house, sleeper("second", cpu=4))
    job = await submit(house, sleeper("third", cpu=2))
    detail = await house.services.jobs.get(house.admin, job.id)
    assert detail.waiting is not None
    assert set(detail.waiting) <= set(texts(await waiting(house, job.id)))


async def test_fragmentation_on_two_machines(cluster: House) -> None:
    for name in ("a", "b"):
        await running(cluster, sleeper(name, gpu=3))
    job = await cluster.submit(sleeper("wide", gpu=2))
    wait = await waiting(cluster, job.id)
    assert texts(wait) == [
        "It requests 1 core, 1 GiB of memory, 2 GPUs: enough is free in total, but not on nodes where its "
        "tasks fit. Free: node north has 7 cores, 15 GiB of memory, 1 GPU; node south has 7 cores, 15 GiB of "
        "memory, 1 GPU."
    ]
    assert wait.blockers[0].kind is BlockerKind.FRAGMENTED
    gang = await cluster.submit(sleeper("gang", gpu=1, instances=3, priority=1))
    assert texts(await waiting(cluster, gang.id))[0].startswith(
        "It requests 3 cores, 3 GiB of memory, 3 GPUs; free: 14 cores, 30 GiB of memory, 2 GPUs."
    )
    assert "It would start now with 2 tasks instead of 3." in (await waiting(cluster, gang.id)).helps


async def test_jobs_of_groups_that_one_does_not_see_are_not_named(house: House) -> None:
    ann, zoe = await house.user("ann", "red"), await house.user("zoe", "secret")
    hidden = await running(house, sleeper("hidden", cpu=3, group="secret"), zoe)
    ahead = await submit(house, sleeper("hidden-too", cpu=4, group="secret"), zoe)
    job = await submit(house, sleeper("mine", cpu=2, group="red"), ann)
    wait = await waiting(house, job.id, ann)
    assert "hidden" not in repr(wait)
    assert "zoe" not in repr(wait)
    assert hidden not in repr(wait)
    assert ahead.id not in repr(wait)
    assert wait.blockers[0].holders[0].has == ResourceAmount(cpu=3)
    assert (wait.ahead_count, wait.ahead[0].asks.cpu) == (1, 4)
    seen = await waiting(house, job.id, house.admin)
    assert (seen.blockers[0].holders[0].name, seen.ahead[0].job_id) == ("hidden", ahead.id)
    with pytest.raises(NotFound):
        await house.services.explanations.explain_job(ann, hidden)


async def test_quotas_and_what_an_admin_can_do(house: House) -> None:
    await house.services.groups.create(house.admin, Group(name="lab", quota=Quota(cpu=2), user_quota=Quota(cpu=2)))
    ann = await house.user("ann", "lab")
    await running(house, sleeper("first", cpu=2, group="lab"), ann)
    job = await house.submit(sleeper("next", group="lab"), ann)
    wait = await waiting(house, job.id, ann)
    assert texts(wait) == [
        "The quota of group lab is 2 cores, 2 in use, 1 requested.",
        "The quota of user ann in group lab is 2 cores, 2 in use, 1 requested.",
    ]
    assert wait.helps[-1] == (
        "It would start now if an admin raised the quota of lab to 3 cores and per user to 3 cores: `holdfast "
        "group set lab --cpu 3 --user-cpu 3`."
    )
    more = GroupChange(quota=Quota(cpu=3), user_quota=Quota(cpu=3))
    await house.services.groups.change(house.admin, "lab", more)
    await house.until(job.id, JobState.RUNNING)


async def test_a_held_job_is_let_go_as_was_said(house: House) -> None:
    crash = await house.submit("name: crash\nhold: true\ncommand: exit 3\nresources: {cpu: 4}\n")
    await house.until(crash.id, JobState.HELD)
    job = await house.submit(sleeper("next"))
    wait = await waiting(house, job.id)
    (holder,) = wait.blockers[0].holders
    assert (holder.held, holder.until) == (True, house.clock.now() + 7 * DAY)
    assert wait.helps == (
        f"It would start now if job crash ({crash.id}) of user admin, which failed and is on hold until 2026-03-08 "
        f"12:00:00 UTC, were released: `holdfast release {crash.id}`.",
    )
    assert wait.estimate is not None
    assert wait.estimate.at == holder.until
    why = await house.services.explanations.explain_job(house.admin, crash.id)
    assert (why.verdict, why.job.summary.held_until) == ("failed", holder.until)
    await house.services.holds.release(house.admin, crash.id)
    await house.until(job.id, JobState.RUNNING)


async def test_a_job_that_is_tried_again_says_when(house: House) -> None:
    job = await house.submit("name: again\nretry: -1\ncommand: exit 1\n")
    async with asyncio.timeout(TIMEOUT):  # the first tries follow at once
        while not (
            (live := house.controller.get_active_job(job.id)) and live.retry_at and live.retry_at > house.clock.now()
        ):
            await house.controller.wait_for_change(job.id, 1.0)
    wait = await waiting(house, job.id)
    (blocker,) = wait.blockers
    assert blocker.kind is BlockerKind.RETRY
    assert blocker.text.startswith(f"The next attempt starts at {live.retry_at:%Y-%m-%d %H:%M:%S} UTC.")
    assert wait.estimate is not None
    assert wait.estimate.at == live.retry_at


async def test_what_it_will_miss_is_told_while_it_waits(house: House, tmp_path: Path) -> None:
    folder = tmp_path / "photos"
    folder.mkdir()
    datasets, ann = house.services.datasets, await house.user("ann", "lab")
    await datasets.create(house.admin, Dataset(name="photos", path=str(folder), groups=("lab",)))
    await datasets.create(
        house.admin, Dataset(name="keys", path="", kind="env", groups=("lab",)), variables={"KEY": "value"}
    )
    for name in ("photos", "keys"):
        await datasets.grant(house.admin, name, "lab")
    await running(house, sleeper("first", cpu=4))
    text = sleeper("next", group="lab", image="nowhere:1", datasets="[photos, keys]")
    job = await house.submit(text, ann)
    wait = await waiting(house, job.id, ann)
    assert [blocker.text for blocker in of_kind(wait, BlockerKind.IMAGE)] == [
        "Image nowhere:1 is not on this server. The job fails when it starts, unless the image is imported first."
    ]
    assert wait.helps[-1] == ("Ask an admin to import the image: `holdfast image import nowhere:1 FILE`.")
    many = await asyncio.gather(*(waiting(house, job.id, ann) for _ in range(4)))
    assert [of_kind(each, BlockerKind.DATASET) for each in many] == [[]] * 4
    shutil.rmtree(folder)
    await datasets.revoke(house.admin, "keys", "lab")
    wait = await waiting(house, job.id, ann)
    assert [blocker.text for blocker in of_kind(wait, BlockerKind.DATASET)] == [
        "ann no longer has access to dataset keys; the job starts without its variables.",
        "The folder of dataset photos does not exist. The job fails when it starts, unless the folder is "
        "restored first.",
    ]
    assert wait.helps[-2:] == (
        "Ask an admin to grant access again: `holdfast dataset grant keys lab`.",
        "Ask an admin to restore the dataset's folder: `holdfast dataset show photos` shows its path.",
    )
    detail = await house.services.jobs.get(ann, job.id)
    assert detail.waiting == tuple(texts(wait))
    await datasets.delete(house.admin, "keys")
    wait = await waiting(house, job.id, ann)
    assert of_kind(wait, BlockerKind.DATASET)[0].text == (
        "Dataset keys no longer exists; the job starts without its variables."
    )


async def test_tasks_of_a_running_job_that_still_wait_are_told_too(house: House) -> None:
    job = await running(house, sleeper("many", cpu=3, instances=2, gang="false"))
    why = await house.services.explanations.explain_job(house.admin, job)
    assert why.verdict != "waiting"
    assert why.waiting is not None
    assert texts(why.waiting)[0] == "It requests 3 cores, 1 GiB of memory; free: 1 core, 15 GiB of memory."


async def test_a_job_that_failed_says_why_with_evidence(house: House) -> None:
    job = await house.run("name: bad\ncommand: |\n  echo python: command not found\n  exit 127\n")
    why: JobExplanation = await house.services.explanations.explain_job(house.admin, job.id)
    assert why.waiting is None
    assert why.failure is not None
    assert why.verdict == "failed"
    assert any(each.kind is EvidenceKind.EXIT and "127" in each.text for each in why.failure.evidence)


async def test_a_refused_image_is_told_once(house: House) -> None:
    text = "Image 'torch' not found. Available images: host."
    house.engine.refuse = lambda launch: Observation(
        attempt_id=launch.attempt_id, seen=ObservedState.REFUSED, cause=Cause.IMAGE_MISSING, message=text
    )
    job = await house.run("name: bad\ncommand: 'true'\n")
    failure = (await house.services.explanations.explain_job(house.admin, job.id)).failure
    assert failure is not None
    assert text.removesuffix(".") in failure.title
    assert len([each for each in failure.evidence if text in each.text]) == 1


async def test_nothing_is_said_of_one_that_does_well(house: House) -> None:
    job = await running(house, sleeper("good"))
    why = await house.services.explanations.explain_job(house.admin, job)
    assert (why.waiting, why.failure, why.verdict) == (None, None, "fine")
    done = await house.run("name: done\ncommand: exit 0\n")
    why = await house.services.explanations.explain_job(house.admin, done.id)
    assert (why.waiting, why.failure, why.verdict) == (None, None, "fine")


async def test_a_job_that_is_being_stopped_waits_for_nothing(house: House) -> None:
    await running(house, sleeper("first", cpu=4))
    job = await house.submit(sleeper("next"))
    record = (await house.services.explanations.explain_job(house.admin, job.id)).job
    await house.services.jobs.stop(house.admin, job.id)
    stopped = await house.services.explanations.explain_job(house.admin, job.id)
    assert (record.summary.state, stopped.waiting) == (JobState.PENDING, None)
    assert replace(stopped, job=record).verdict == "fine"
