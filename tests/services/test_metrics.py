"""Metrics of jobs: averaged over tasks and GPUs, told to those who may see the job, and removed in time."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from holdfast.controller import retention
from holdfast.controller.retention import MetricsRetention
from holdfast.core.errors import NotFound, UserError
from holdfast.core.metrics.samples import RING_BUFFER_SPECS
from holdfast.core.states import JobState
from holdfast.services.installation.disk_report import StorageKind
from holdfast.services.installation.pruning import PruneRequest
from holdfast.services.metrics import service as under_test
from holdfast.store.metrics.database import MetricsDatabase, TaskEnd

from .house import House
from .recorded_metrics import GIB, MIB, START, record_steady

pytestmark = pytest.mark.anyio

TWO_ROLES = """
name: pair
roles:
  a: {instances: 2, command: sleep 100, resources: {cpu: 0.5, memory: 1Gi}}
  b: {instances: 1, command: sleep 100, resources: {cpu: 2, memory: 4Gi}}
"""


async def pair(house: House) -> str:
    """With metrics of ten minutes: two tasks at 100 and 300 %, the third at 50 % with two GPUs."""
    job = await house.submit(TWO_ROLES)
    await house.until(job.id, JobState.RUNNING)
    database = house.services.metrics.database
    await record_steady(database, f"{job.id}.0.a-0.0", cpu=100, memory=100 * MIB)
    await record_steady(database, f"{job.id}.0.a-1.0", cpu=300, memory=300 * MIB)
    await record_steady(database, f"{job.id}.0.b-0.0", cpu=50, memory=50 * MIB, gpus=(80.0, 20.0))
    return job.id


async def test_each_value_is_the_mean_over_tasks_and_over_gpus(house: House) -> None:
    id, ask = await pair(house), house.services.metrics.load_series
    for ring in RING_BUFFER_SPECS:
        found = await ask(house.admin, id, ring.name)
        assert (found.tasks, found.averaged, found.final) == (3, 3, False)
        assert {point.tasks for point in found.points} == {3}
        for point in found.points:
            assert point.cpu == pytest.approx(150)
            assert point.memory == pytest.approx(150 * MIB)
            assert (point.gpu, point.gpu_memory) == (pytest.approx(50), pytest.approx(1.5 * GIB, rel=0.001))
            assert (point.net_in, point.disk_read) == (pytest.approx(1000), pytest.approx(4096))
        assert found.points[-1].at == START + 600
    assert len((await ask(house.admin, id, "15m")).points) == 60
    assert len((await ask(house.admin, id, "lifetime")).points) == 2


async def test_of_a_role_of_a_task_and_with_each_gpu(house: House) -> None:
    id, ask = await pair(house), house.services.metrics.load_series
    role = await ask(house.admin, id, role="a")
    assert (role.tasks, role.points[0].cpu, role.points[0].gpu) == (2, pytest.approx(200), None)
    assert (role.limits.cpu, role.limits.memory, role.limits.gpu_memory) == (0.5, GIB, None)
    task = await ask(house.admin, id, task="b-0")
    assert [(gpu.index, gpu.percent) for gpu in task.points[0].gpus] == [(0, 80), (1, 20)]
    assert (task.limits.cpu, task.limits.gpu_memory) == (2, 8 * GIB)


async def test_what_is_not_there_is_said(house: House) -> None:
    id, ask = await pair(house), house.services.metrics.load_series
    for field, wrong in {"role": "c", "task": "a-2", "attempt": 1}.items():
        with pytest.raises(NotFound) as told:
            await ask(house.admin, id, **{field: wrong})  # type: ignore[arg-type]
        assert told.value.field == field
        assert told.value.hint
    with pytest.raises(UserError, match="Series '2h' not found"):
        await ask(house.admin, id, "2h")
    stranger = await house.user("eve", "blue")
    for call in (ask(stranger, id), house.services.metrics.load_current_metrics(stranger, id)):
        with pytest.raises(NotFound):
            await call
    assert house.services.metrics.get_current_totals(stranger).jobs == {}


async def test_a_job_without_metrics_has_no_points(house: House) -> None:
    first = await house.submit("name: first\ncommand: sleep 100\nresources: {cpu: 4}\n")
    await house.until(first.id, JobState.RUNNING)
    job = await house.submit("name: waits\ncommand: sleep 100\nresources: {cpu: 4}\n")
    found = await house.services.metrics.load_series(house.admin, job.id)
    assert (found.points, found.tasks, found.averaged) == ((), 0, 0)
    assert (found.limits.cpu, found.limits.memory) == (4, 2 * GIB)


async def test_of_very_many_tasks_some_are_averaged_and_that_is_said(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    id = await pair(house)
    monkeypatch.setattr(under_test, "MAX_POINTS", 120)  # two tasks' worth
    found = await house.services.metrics.load_series(house.admin, id)
    assert (found.tasks, found.averaged) == (3, 2)
    assert found.points[0].cpu == pytest.approx((100 + 50) / 2)  # the first and the third


async def test_what_tasks_use_now(house: House) -> None:
    id = await pair(house)
    now = await house.services.metrics.load_current_metrics(house.admin, id)
    assert [(each.task.task, each.current and round(each.current.sample.cpu)) for each in now.tasks] == [
        ("a-0", 100),
        ("a-1", 300),
        ("b-0", 50),
    ]
    place = house.services.metrics.get_current_totals(house.admin)
    load = place.jobs[id]
    assert (load.tasks, round(load.cpu), load.memory, load.gpu) == (3, 450, 450 * MIB, 50)
    assert place.nodes["fake"].cpu == place.groups["default"].cpu == load.cpu
    found = {(snapshot.id, task.task) for snapshot, task, _ in house.services.metrics.iter_running_tasks()}
    assert found == {(id, "a-0"), (id, "a-1"), (id, "b-0")}


async def test_summaries_of_those_that_were_measured(house: House) -> None:
    id = await pair(house)
    ids = [f"{id}.0.a-1.0", f"{id}.0.a-9.0", "nothing at all"]
    found = await house.services.metrics.read_summaries(ids)
    assert list(found) == ids[:1]
    assert found[ids[0]].cpu_percent == pytest.approx(300)
    assert await house.services.metrics.read_summary(ids[1]) is None


async def test_tries_of_one_task_are_one_line(house: House) -> None:
    text = "name: again\nroles: {w: {command: exit 1, retry: 1}}\ngang: false\n"
    job = await house.run(text)
    database = house.services.metrics.database
    await record_steady(database, f"{job.id}.0.w-0.0", cpu=10, seconds=100)
    await record_steady(database, f"{job.id}.0.w-0.1", cpu=90, seconds=100, start=START + 200)
    found = await house.services.metrics.load_series(house.admin, job.id)
    assert (found.tasks, found.final) == (1, True)
    assert [round(point.cpu) for point in found.points] == [10] * 10 + [90] * 10


async def test_the_last_points_of_a_task_that_ended_long_before_are_out_of_reach(house: House) -> None:
    id, database = (await house.submit(TWO_ROLES)).id, house.services.metrics.database
    await house.until(id, JobState.RUNNING)
    await record_steady(database, f"{id}.0.a-0.0", cpu=10, seconds=100)
    await record_steady(database, f"{id}.0.a-1.0", cpu=90, seconds=100, start=START + 5000)
    assert {round(point.cpu) for point in (await house.services.metrics.load_series(house.admin, id)).points} == {90}
    whole = (await house.services.metrics.load_series(house.admin, id, "lifetime")).points
    assert [round(point.cpu) for point in whole] == [10, 90]


async def test_metrics_go_some_days_after_the_end_and_those_of_unknown_jobs_at_once(house: House) -> None:
    database = house.services.metrics.database
    running = await pair(house)
    ended = [(await house.run("name: x\ncommand: exit 0\n")).id for _ in range(3)]
    now = datetime.now(UTC).timestamp()
    long_ago = now - timedelta(days=40).total_seconds()
    for job_id, start in ((running, long_ago), (ended[0], long_ago), (ended[1], long_ago), (ended[2], now)):
        await record_steady(database, f"{job_id}.0.main-0.0", seconds=20, start=start)
    await record_steady(database, "unknown.0.main-0.0", seconds=20, start=now)
    for job_id in (running, ended[0]):  # of the second one, nobody saw the end
        end = TaskEnd(attempt_id=f"{job_id}.0.main-0.0", used=None, seconds=None, at=long_ago + 20)
        await database.run_in_thread(database.record_ends, end)
    await MetricsRetention(house.store, database, house.controller, None).delete_expired_metrics()
    assert await database.run_in_thread(database.list_job_ids, "", 10) == sorted([running, *ended])
    await MetricsRetention(house.store, database, house.controller, timedelta(days=30)).delete_expired_metrics()
    assert await database.run_in_thread(database.list_job_ids, "", 10) == sorted([running, ended[2]])
    assert await database.run_in_thread(database.read_summary, f"{running}.0.main-0.0")  # the job is still active


async def test_every_job_is_checked_some_at_a_time(house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(retention, "BATCH_SIZE", 2)
    database = house.services.metrics.database
    for n in range(5):
        await record_steady(database, f"unknown{n}.0.main-0.0", seconds=20)
    found = MetricsRetention(house.store, database, house.controller, timedelta(days=30))
    for left in (3, 1, 0, 0):
        await found.delete_expired_metrics()
        assert len(await database.run_in_thread(database.list_job_ids, "", 10)) == left


async def test_files_of_an_earlier_version_are_removed_at_the_start(house: House) -> None:
    database = house.services.metrics.database
    old = database.path.with_name("metrics") / "a7" / "job"
    old.mkdir(parents=True)
    (old / "job.0.main-0.0.figures").write_bytes(b"HFfigure")
    running = asyncio.create_task(MetricsRetention(house.store, database, house.controller, None).run())
    async with asyncio.timeout(20):
        while database.path.with_name("metrics").exists():
            await asyncio.sleep(0.01)
    running.cancel()


async def test_pruning_removes_metrics_of_ended_jobs_and_frees_their_room(house: House) -> None:
    database, pruning = house.services.metrics.database, house.services.pruning
    house.controller.clock = house.clock.now
    running, ended = await pair(house), await house.run("name: x\ncommand: exit 0\n")
    house.clock.forward(60)
    for n in range(200):
        await record_steady(database, f"{ended.id}.0.main-{n}.0")
    before = await metrics_bytes(house)
    request = PruneRequest(kinds=frozenset({StorageKind.METRICS}))
    for dry_run in (True, True, False):
        result = await pruning.prune_storage(house.admin, replace(request, dry_run=dry_run))
        assert [(item.count, result.more) for item in result.items] == [(1, False)]
    assert await database.run_in_thread(database.list_job_ids, "", 10) == [running]
    assert await metrics_bytes(house) < before / 5


async def metrics_bytes(house: House) -> int:
    report = await house.services.pruning.reports.build_report(house.admin)
    return next(item.bytes for item in report.items if item.kind is StorageKind.METRICS)


async def test_a_damaged_database_is_replaced_and_counted(house: House) -> None:
    id, metrics = await pair(house), house.services.metrics
    path = metrics.database.path
    metrics.database.close()
    path.write_bytes(b"not ours" * 1000)
    metrics.database = MetricsDatabase(path.parent)
    found = await metrics.load_series(house.admin, id)
    assert (found.tasks, found.averaged) == (3, 0)
    assert await metrics_bytes(house) > 8000
    metrics.database.close()
