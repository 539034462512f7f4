"""Metrics of tasks on disk: what is kept of a day; what is left after kills, damaged files and full disks."""

from __future__ import annotations

import itertools
import os
import random
import resource
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from holdfast.core.metrics.samples import RING_BUFFER_SPECS, GpuReading, Reading, Sample
from holdfast.store.errors import StoreError
from holdfast.store.metrics import file as metrics_file
from holdfast.store.metrics.database import EndedTask, Measurement, MetricsDatabase, TaskEnd
from holdfast.store.metrics.file import SCHEMA_VERSION

from .record_until_killed import START, TASK

MIB = 2**20
GIB = 2**30
DAY = 86400
GARBAGE = {
    "nothing": b"",
    "a word": b"garbage",
    "zeros": bytes(100_000),
    "ones": b"\xff" * 100_000,
    "chance": random.Random(3).randbytes(5000),
}
MIDNIGHT = 1_699_920_000.0  # seconds since 1970; on the border of an interval of every ring


CANNOT_USE = "could not use the metrics database"
SET_ASIDE = "could not read the metrics database; started a new one"

pytestmark = pytest.mark.anyio


@pytest.fixture
def database(tmp_path: Path) -> Iterator[MetricsDatabase]:
    found = MetricsDatabase(tmp_path)
    yield found
    found.close()


def reopened(database: MetricsDatabase) -> MetricsDatabase:
    """What the next server finds."""
    return MetricsDatabase(database.path.parent)


def end(used: Reading | None, seconds: float | None, at: float, task: str = TASK) -> TaskEnd:
    return TaskEnd(attempt_id=task, used=used, seconds=seconds, at=at)


def look(
    at: float, *, cpu: float | None = None, start: float = MIDNIGHT, task: str = TASK, **more: object
) -> Measurement:
    """At that second of the task's life; it keeps one core busy."""
    reading = Reading(**{"at": at, "cpu": at if cpu is None else cpu, "memory": 50 * MIB, **more})  # type: ignore[arg-type]
    return Measurement(attempt_id=task, reading=reading, at=start + at, age=at)


def moments(until: float) -> list[float]:
    """When a task is looked at."""
    return [5.0 * n for n in range(1, 13)] + [60 + 10.0 * n for n in range(1, int(until - 60) // 10 + 1)]


def rings_of(database: MetricsDatabase, task: str = TASK) -> dict[str, list[Sample]]:
    found = database.read_series(task)
    assert found is not None
    return found.rings


def test_a_day_of_a_task_with_eight_gpus_is_kept_in_four_rings(database: MetricsDatabase) -> None:
    def gpus(at: float) -> tuple[GpuReading, ...]:
        return tuple(
            GpuReading(index=n, percent=(at / 10 + n) % 100, memory=int(n * 17.3 * GIB), memory_total=141 * GIB)
            for n in range(8)
        )

    for at in moments(DAY):
        database.record_measurements([look(at, cpu=2 * at, net_in=int(1e6 * at), gpus=gpus(at))])
    database.record_ends(end(None, None, MIDNIGHT + DAY))

    rings = rings_of(database)
    assert {name: len(points) for name, points in rings.items()} == {"15m": 90, "1h": 120, "3h": 90, "lifetime": 288}
    for ring in RING_BUFFER_SPECS:
        points = rings[ring.name]
        assert points[-1].at == MIDNIGHT + DAY
        assert {round(b.at - a.at, 3) for a, b in itertools.pairwise(points)} == {ring.seconds}
        assert {each.seconds for each in points} == {ring.seconds}
        assert all(each.cpu == pytest.approx(200) and each.net_in == pytest.approx(1e6) for each in points)
        assert points[-1].gpus[7].memory == pytest.approx(7 * 17.3 * GIB, rel=0.001)
    last = rings["lifetime"][-1]
    looks = [at for at in moments(DAY) if at > DAY - 300]
    for gpu in last.gpus:
        wanted = sum((at / 10 + gpu.index) % 100 for at in looks) / len(looks)
        assert gpu.percent == pytest.approx(wanted, rel=0.001)
    summary = database.read_summary(TASK)
    assert summary is not None
    assert summary.ended
    assert (summary.seconds, summary.cpu, summary.net_in) == (DAY, 2 * DAY, DAY * 10**6)
    database.close()
    assert database.path.stat().st_size < 100_000


def test_the_first_minute_is_told_closely_and_so_are_intervals_that_go_on(database: MetricsDatabase) -> None:
    database.record_measurements([look(at, start=MIDNIGHT + 7) for at in (5, 10, 15, 20, 25, 30)])
    rings = rings_of(database)
    assert [each.at - MIDNIGHT - 7 for each in rings["15m"]] == [5, 10, 15, 20, 25, 30]
    assert [(each.at - MIDNIGHT, each.seconds) for each in rings["1h"]] == [(30, 23), (37, 7)]
    assert [(each.at - MIDNIGHT, each.seconds) for each in rings["lifetime"]] == [(37, 30)]
    assert {each.cpu for points in rings.values() for each in points} == {100}
    assert database.newest[TASK].sample.at == MIDNIGHT + 37


def test_a_later_server_goes_on_where_the_last_one_was(tmp_path: Path) -> None:
    whole, parts = MetricsDatabase(tmp_path / "whole"), MetricsDatabase(tmp_path / "parts")
    times = moments(1000)
    for n, at in enumerate(times):
        taken = look(at, cpu=at * (1 + n % 3), memory=n * MIB)
        whole.record_measurements([taken])
        parts.record_measurements([taken])
        parts.close()
        parts = reopened(parts)
    assert parts.read_series(TASK) == reopened(whole).read_series(TASK) == whole.read_series(TASK)


def test_time_in_which_no_server_ran_counts_in_the_summary_and_is_a_gap_in_the_series(tmp_path: Path) -> None:
    MetricsDatabase(tmp_path).record_measurements([look(at) for at in (5, 10)])
    later = MetricsDatabase(tmp_path)
    later.record_measurements([look(at) for at in (1000, 1010)])
    points = rings_of(later)["15m"]
    assert [each.at - MIDNIGHT for each in points] == [5, 10, 1010]
    summary = later.read_summary(TASK)
    assert summary is not None
    assert (summary.seconds, summary.sampled, summary.cpu) == (1010, 20, 1010)


def test_a_task_too_short_for_a_look_is_known_by_what_its_end_tells(database: MetricsDatabase) -> None:
    used = Reading(at=77, cpu=1.5, memory=0, memory_peak=20 * MIB, disk_written=4096)
    database.record_ends(end(used, 3.0, MIDNIGHT))
    database.record_ends(end(replace(used, cpu=9.0), 8.0, MIDNIGHT))  # told again
    found = database.read_series(TASK)
    assert found is not None
    assert found.summary.ended
    assert (found.summary.seconds, found.summary.cpu, found.summary.memory_peak) == (3, 1.5, 20 * MIB)
    assert [(each.cpu, each.seconds) for each in found.rings["lifetime"]] == [(50, 3)]
    database.record_ends(end(None, 1.0, MIDNIGHT, "job.0.worker-1.0"))
    assert database.read_series("job.0.worker-1.0") is None


def test_the_end_adds_what_happened_since_the_last_look_and_then_nothing_more(database: MetricsDatabase) -> None:
    database.record_measurements([look(at) for at in (5, 10)])
    database.record_ends(end(Reading(at=12345, cpu=13.0, memory=0), 14.0, MIDNIGHT + 14))
    database.record_measurements([look(20)])  # was under way
    database.record_measurements([look(1000)])
    summary = database.read_summary(TASK)
    assert summary is not None
    assert (summary.seconds, summary.cpu, summary.memory_mean) == (14, 13, 50 * MIB)
    assert [each.at - MIDNIGHT for each in rings_of(database)["15m"]] == [5, 10, 14]
    assert TASK not in database.newest


@pytest.mark.parametrize("jump", [-86400.0, -15.0, 40.0, 86400.0 * 365])
def test_a_clock_that_is_set_loses_no_time_of_work(database: MetricsDatabase, jump: float) -> None:
    times = moments(300)
    database.record_measurements([look(at, start=MIDNIGHT + (jump if at > 150 else 0)) for at in times])
    database.record_ends(end(None, None, 0))
    rings, summary = rings_of(database), database.read_summary(TASK)
    assert summary is not None
    assert (summary.seconds, summary.cpu) == (300, 300)
    assert len(rings["15m"]) == len(times)
    assert all(each.cpu == pytest.approx(100) for points in rings.values() for each in points)
    assert max(each.at for each in rings["1h"]) == MIDNIGHT + max(300 + jump, 150)


def test_an_engine_whose_clock_begins_anew_is_taken_up_from_there(database: MetricsDatabase) -> None:
    later = [replace(look(510), reading=look(3).reading), replace(look(520), reading=look(13).reading)]
    database.record_measurements([look(500), *later])
    assert [each.cpu for each in rings_of(database)["15m"]] == [100]


def test_gpus_that_show_late_get_their_room(database: MetricsDatabase) -> None:
    gpu = GpuReading(index=5, percent=40, memory=GIB, memory_total=2 * GIB)
    database.record_measurements([look(at) for at in moments(900)])
    before = rings_of(database)
    database.record_measurements([look(at, gpus=(gpu,)) for at in (910, 920)])
    for again in (database, reopened(database)):
        points = rings_of(again)
        assert [replace(each, gpus=()) for each in points["3h"][:7]] == before["3h"][:7]
        assert [[gpu.percent for gpu in each.gpus] for each in points["15m"][-3:]] == [[], [40], [40]]


def test_a_process_killed_at_any_moment_leaves_a_file_that_the_next_one_goes_on_with(tmp_path: Path) -> None:
    number = 1
    for round in range(12):
        command = [sys.executable, "-m", "tests.store.record_until_killed", str(tmp_path), str(number)]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
            assert process.stdout is not None
            for _ in range(20 + round * 7):
                process.stdout.readline()
            os.kill(process.pid, signal.SIGKILL)
            lines = process.stdout.read().splitlines()
        number += 20 + round * 7 + len(lines)
        found = MetricsDatabase(tmp_path).read_series(TASK)
        assert found is not None
        last = found.reading.memory  # which look it was
        assert last >= number - 1
        number = last + 1
        points = found.rings["15m"]
        assert points[-1].at >= START + 10 * (last - 1)  # at most the look that was being written is lost
        assert all(each.cpu == 100 for each in points)
        assert found.summary.cpu == 10.0 * last
    found = MetricsDatabase(tmp_path).read_series(TASK)
    assert found is not None
    assert sum(each.seconds for each in found.rings["lifetime"]) >= 10 * (last - 12)


@pytest.mark.parametrize("content", GARBAGE.values(), ids=GARBAGE)
def test_a_file_of_garbage_is_set_aside(
    database: MetricsDatabase, content: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    database.path.write_bytes(content)
    assert database.read_series(TASK) is None
    assert database.read_summary(TASK) is None
    database.record_measurements([look(at) for at in (5, 10)])
    assert [each.cpu for each in rings_of(reopened(database))["15m"]] == [100, 100]
    if content:  # an empty file is an empty database
        assert database.path.with_name("metrics.db.damaged").read_bytes() == content
        assert [record.message for record in caplog.records] == [SET_ASIDE]


def test_the_database_of_another_version_is_set_aside(database: MetricsDatabase) -> None:
    database.record_measurements([look(5)])
    database.close()
    with closing(sqlite3.connect(database.path)) as other:
        other.execute(f"PRAGMA user_version = {SCHEMA_VERSION + 1}")
    later = reopened(database)
    assert later.read_series(TASK) is None
    later.record_measurements([look(10)])
    assert later.read_summary(TASK) is not None
    assert database.path.with_name("metrics.db.damaged").exists()
    later.close()


def test_a_file_that_is_damaged_anywhere_never_stops_the_recording(tmp_path: Path) -> None:
    whole = MetricsDatabase(tmp_path)
    for at in moments(400):
        whole.record_measurements([look(at, task=f"job.0.worker-{n}.0") for n in range(5)])
    whole.close()
    content = whole.path.read_bytes()
    pick = random.Random(5)
    for place in range(0, len(content), 499):
        data = pick.randbytes(pick.choice([1, 23, 700]))
        rest = b"" if pick.random() < 0.1 else content[place + len(data) :]
        whole.path.write_bytes(content[:place] + data + rest)
        database = MetricsDatabase(tmp_path)
        for n in range(5):
            database.read_series(f"job.0.worker-{n}.0")
        new = f"new{place}.0.worker-0.0"
        tasks = [new, *(f"job.0.worker-{n}.0" for n in range(5))]
        for at in (410, 420):
            database.record_measurements([look(at, task=task) for task in tasks])
            database.record_ends(end(None, 1.0, MIDNIGHT + at, tasks[-1]))
        assert database.newest[new].sample.at == MIDNIGHT + 420
        database.close()
        later = MetricsDatabase(tmp_path)
        summary = later.read_summary(new)
        later.close()
        assert summary is not None
        assert summary.cpu == 420


def test_a_database_that_is_damaged_while_it_is_used_is_replaced(
    database: MetricsDatabase, caplog: pytest.LogCaptureFixture
) -> None:
    database.record_measurements([look(at) for at in moments(400)])
    with closing(sqlite3.connect(database.path)) as other:
        other.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
    database.path.write_bytes(b"\xa5" * database.path.stat().st_size)
    with closing(sqlite3.connect(database.path)):
        pass
    for at in (410, 420):
        database.record_measurements([look(at), look(at, task="other.0.worker-0.0")])
    assert [record.message for record in caplog.records] == [SET_ASIDE]
    assert rings_of(database)["15m"][-1].at == MIDNIGHT + 420
    summary = reopened(database).read_summary(TASK)
    assert summary is not None
    assert summary.cpu == 420  # the task was in memory


@contextmanager
def no_room() -> Iterator[None]:
    """Whatever is written to a file is refused by the kernel."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


def test_a_disk_without_room_costs_metrics_and_nothing_else(
    database: MetricsDatabase, caplog: pytest.LogCaptureFixture
) -> None:
    other = "job.0.worker-1.0"
    database.record_measurements([look(5)])
    with no_room():
        database.record_measurements([look(10), look(10, task=other)])
        database.record_measurements([look(15)])
    assert database.newest[TASK].sample.at == MIDNIGHT + 15  # who looks now still sees them
    assert [record.message for record in caplog.records] == [CANNOT_USE]
    database.record_measurements([look(20), look(20, task=other)])
    for task, times in {TASK: [5, 20], other: [20]}.items():
        found = reopened(database).read_series(task)
        assert found is not None
        assert [each.at - MIDNIGHT for each in found.rings["15m"]] == times
        assert found.summary.cpu == 20


def test_a_database_that_another_program_has_locked_is_left_alone(
    database: MetricsDatabase, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(metrics_file, "LOCK_TIMEOUT", 0.01)
    database.record_measurements([look(5)])
    with closing(sqlite3.connect(database.path, isolation_level=None)) as other:
        other.execute("BEGIN EXCLUSIVE")
        database.record_measurements([look(10)])
    assert [record.message for record in caplog.records] == [CANNOT_USE]
    database.record_measurements([look(15)])
    assert [each.at - MIDNIGHT for each in rings_of(database)["15m"]] == [5, 15]


def test_a_path_that_cannot_be_opened_costs_metrics_until_it_can(
    database: MetricsDatabase, caplog: pytest.LogCaptureFixture
) -> None:
    database.path.mkdir()
    database.record_measurements([look(5)])
    database.record_ends(end(None, 1.0, MIDNIGHT))
    assert database.read_series(TASK) is None
    assert [record.message for record in caplog.records] == [CANNOT_USE]
    database.path.rmdir()
    database.record_measurements([look(10)])
    assert database.read_summary(TASK) is not None


async def test_many_ends_at_once_are_all_saved(database: MetricsDatabase) -> None:
    tasks = [f"job{n}.0.worker-0.0" for n in range(300)]
    for task in tasks:
        database.schedule_end(end(Reading(at=77, cpu=1.5, memory=0), 3.0, MIDNIGHT, task))
    for task in tasks:
        found = await database.run_in_thread(database.read_summary, task)
        assert found is not None
        assert (found.ended, found.cpu) == (True, 1.5)


async def test_the_oldest_ended_tasks_are_listed_first_and_running_ones_never(database: MetricsDatabase) -> None:
    used = Reading(at=77, cpu=1.5, memory=0)
    for n in (3, 1, 2, 4):
        database.record_ends(end(used, 3.0, 1000.0 * n, f"job{n}.0.worker-0.0"))
    database.record_measurements([look(5, start=0, task="running.0.worker-0.0")])
    found: list[EndedTask] = []
    while page := database.list_ended_tasks(found[-1] if found else None, 4000.0, 2):
        found += page
    assert [(each.attempt_id, each.updated) for each in found] == [
        (f"job{n}.0.worker-0.0", 1000.0 * n) for n in (1, 2, 3)
    ]
    await database.remove_tasks([found[0].id, found[2].id])
    assert database.list_job_ids("", 10) == ["job2", "job4", "running"]
    assert [each.attempt_id for each in database.list_ended_tasks(None, 4000.0, 9)] == ["job2.0.worker-0.0"]


async def test_jobs_are_listed_and_removed_each_by_itself(database: MetricsDatabase) -> None:
    jobs = ["a-b", "a", "a0", "ab", "b"]  # in the order of their tasks' ids
    tasks = [f"{job}.0.w-{n}.0" for job in jobs for n in range(3)]
    database.record_measurements([look(at, task=task) for task in tasks for at in (5, 10)])
    assert database.list_job_ids("", 10) == jobs
    assert database.list_job_ids("", 2) == jobs[:2]
    assert database.list_job_ids("a", 2) == jobs[2:4]
    await database.remove_jobs(["a", "b"])
    later = reopened(database)
    assert later.list_job_ids("", 10) == ["a-b", "a0", "ab"]
    assert later.read_series("a.0.w-1.0") is None
    assert len(rings_of(later, "ab.0.w-1.0")["15m"]) == 2
    later.close()


async def test_what_was_not_written_since_a_time_is_removed(database: MetricsDatabase) -> None:
    old, new = "job.0.worker-0.0", "job.0.worker-0.1"
    database.record_measurements([look(5, task=old), look(500, task=new)])
    await database.remove_jobs(["job"], updated_before=MIDNIGHT + 100)
    later = reopened(database)
    assert later.read_series(old) is None
    assert later.read_series(new) is not None
    later.close()


async def test_the_disk_gets_back_what_was_removed(database: MetricsDatabase) -> None:
    for n in range(40):
        database.record_measurements([look(at, task=f"job{n}.0.worker-0.0") for at in moments(900)])
    with closing(sqlite3.connect(database.path)) as other:
        other.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
    before = database.path.stat().st_size
    await database.remove_jobs([f"job{n}" for n in range(30)])
    await database.shrink_file(0.9)
    assert database.path.stat().st_size == before
    await database.shrink_file()
    assert database.path.stat().st_size < before / 3
    assert len(rings_of(database, "job35.0.worker-0.0")["15m"]) == 90


async def test_what_cannot_be_removed_is_said(database: MetricsDatabase) -> None:
    database.record_measurements([look(at) for at in moments(900)])
    with no_room(), pytest.raises(StoreError):
        await database.remove_jobs(["job"])
    await database.remove_jobs(["job"])
    assert database.list_job_ids("", 10) == []
