"""Figures of tasks on disk: what is kept of a day; what is left after kills, torn writes, garbage and full disks."""

from __future__ import annotations

import errno
import itertools
import os
import random
import resource
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from holdfast.core.metrics.samples import RINGS, GpuReading, Reading, Sample
from holdfast.store.metrics.series_files import SeriesFiles, Taken

from .measure_for_ever import START, TASK

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


@pytest.fixture
def files(tmp_path: Path) -> SeriesFiles:
    return SeriesFiles(tmp_path / "metrics")


def look(at: float, *, cpu: float | None = None, start: float = MIDNIGHT, task: str = TASK, **more: object) -> Taken:
    """At that second of the task's life; it keeps one core busy."""
    reading = Reading(**{"at": at, "cpu": at if cpu is None else cpu, "memory": 50 * MIB, **more})  # type: ignore[arg-type]
    return Taken(attempt_id=task, reading=reading, at=start + at, age=at)


def moments(until: float) -> list[float]:
    """When a task is looked at."""
    return [5.0 * n for n in range(1, 13)] + [60 + 10.0 * n for n in range(1, int(until - 60) // 10 + 1)]


def rings_of(files: SeriesFiles, task: str = TASK) -> dict[str, list[Sample]]:
    found = files.read(task)
    assert found is not None
    return found.rings


@pytest.mark.release
def test_a_day_of_a_hundred_tasks_with_eight_gpus_costs_less_than_5_mb(files: SeriesFiles) -> None:
    def gpus(at: float) -> tuple[GpuReading, ...]:
        return tuple(
            GpuReading(index=n, percent=(at / 10 + n) % 100, memory=int(n * 17.3 * GIB), memory_total=141 * GIB)
            for n in range(8)
        )

    files.take([look(at, cpu=2 * at, net_in=int(1e6 * at), gpus=gpus(at)) for at in moments(DAY)])
    files.end(TASK, None, None, MIDNIGHT + DAY)
    size = files.path(TASK).stat()
    assert max(size.st_size, size.st_blocks * 512) * 100 < 5_000_000

    rings = rings_of(files)
    assert {name: len(points) for name, points in rings.items()} == {"15m": 90, "1h": 120, "3h": 90, "lifetime": 288}
    for ring in RINGS:
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
    summary = files.summary(TASK)
    assert summary is not None
    assert summary.ended
    assert (summary.seconds, summary.cpu, summary.net_in) == (DAY, 2 * DAY, DAY * 10**6)


def test_the_first_minute_is_told_closely_and_what_is_not_a_whole_interval_yet_is_told_too(files: SeriesFiles) -> None:
    files.take([look(at, start=MIDNIGHT + 7) for at in (5, 10, 15, 20, 25, 30)])
    rings = rings_of(files)
    assert [each.at - MIDNIGHT - 7 for each in rings["15m"]] == [5, 10, 15, 20, 25, 30]
    assert [(each.at - MIDNIGHT, each.seconds) for each in rings["1h"]] == [(30, 23), (37, 7)]
    assert [(each.at - MIDNIGHT, each.seconds) for each in rings["lifetime"]] == [(37, 30)]
    assert {each.cpu for points in rings.values() for each in points} == {100}
    assert files.newest[TASK].sample.at == MIDNIGHT + 37


def test_a_later_server_goes_on_where_the_last_one_was(tmp_path: Path) -> None:
    whole, parts = SeriesFiles(tmp_path / "whole"), tmp_path / "parts"
    times = moments(1000)
    for n, at in enumerate(times):
        taken = look(at, cpu=at * (1 + n % 3), memory=n * MIB)
        whole.take([taken])
        SeriesFiles(parts).take([taken])  # a new one each time
    assert SeriesFiles(parts).read(TASK) == SeriesFiles(whole.folder).read(TASK) == whole.read(TASK)


def test_time_in_which_no_server_ran_counts_in_the_summary_and_is_a_gap_in_the_series(tmp_path: Path) -> None:
    SeriesFiles(tmp_path).take([look(at) for at in (5, 10)])
    later = SeriesFiles(tmp_path)
    later.take([look(at) for at in (1000, 1010)])
    points = rings_of(later)["15m"]
    assert [each.at - MIDNIGHT for each in points] == [5, 10, 1010]
    summary = later.summary(TASK)
    assert summary is not None
    assert (summary.seconds, summary.sampled, summary.cpu) == (1010, 20, 1010)


def test_a_task_too_short_for_a_look_is_known_by_what_its_end_tells(files: SeriesFiles) -> None:
    used = Reading(at=77, cpu=1.5, memory=0, memory_peak=20 * MIB, disk_written=4096)
    files.end(TASK, used, 3.0, MIDNIGHT)
    files.end(TASK, replace(used, cpu=9.0), 8.0, MIDNIGHT)  # told again
    found = files.read(TASK)
    assert found is not None
    assert found.summary.ended
    assert (found.summary.seconds, found.summary.cpu, found.summary.memory_peak) == (3, 1.5, 20 * MIB)
    assert [(each.cpu, each.seconds) for each in found.rings["lifetime"]] == [(50, 3)]
    files.end("job.0.worker-1.0", None, 1.0, MIDNIGHT)
    assert files.read("job.0.worker-1.0") is None


def test_the_end_adds_what_happened_since_the_last_look_and_then_nothing_more(files: SeriesFiles) -> None:
    files.take([look(at) for at in (5, 10)])
    files.end(TASK, Reading(at=12345, cpu=13.0, memory=0), 14.0, MIDNIGHT + 14)
    files.take([look(20)])  # was under way
    files.take([look(1000)])
    summary = files.summary(TASK)
    assert summary is not None
    assert (summary.seconds, summary.cpu, summary.memory_mean) == (14, 13, 50 * MIB)
    assert [each.at - MIDNIGHT for each in rings_of(files)["15m"]] == [5, 10, 14]
    assert TASK not in files.newest


@pytest.mark.parametrize("jump", [-86400.0, -15.0, 40.0, 86400.0 * 365])
def test_a_clock_that_is_set_loses_no_time_of_work(files: SeriesFiles, jump: float) -> None:
    times = moments(300)
    files.take([look(at, start=MIDNIGHT + (jump if at > 150 else 0)) for at in times])
    files.end(TASK, None, None, 0)
    rings, summary = rings_of(files), files.summary(TASK)
    assert summary is not None
    assert (summary.seconds, summary.cpu) == (300, 300)
    assert len(rings["15m"]) == len(times)
    assert all(each.cpu == pytest.approx(100) for points in rings.values() for each in points)
    assert max(each.at for each in rings["1h"]) == MIDNIGHT + max(300 + jump, 150)


def test_an_engine_whose_clock_begins_anew_is_taken_up_from_there(files: SeriesFiles) -> None:
    files.take([look(500), replace(look(510), reading=look(3).reading), replace(look(520), reading=look(13).reading)])
    assert [each.cpu for each in rings_of(files)["15m"]] == [100]


def test_gpus_that_show_late_get_their_room(files: SeriesFiles) -> None:
    gpu = GpuReading(index=5, percent=40, memory=GIB, memory_total=2 * GIB)
    files.take([look(at) for at in moments(900)])
    before = rings_of(files)
    files.take([look(at, gpus=(gpu,)) for at in (910, 920)])
    for again in (files, SeriesFiles(files.folder)):
        points = rings_of(again)
        assert [replace(each, gpus=()) for each in points["3h"][:7]] == before["3h"][:7]
        assert [[gpu.percent for gpu in each.gpus] for each in points["15m"][-3:]] == [[], [40], [40]]


def test_a_process_killed_at_any_moment_leaves_a_file_that_the_next_one_goes_on_with(tmp_path: Path) -> None:
    number = 1
    for round in range(12):
        command = [sys.executable, "-m", "tests.store.measure_for_ever", str(tmp_path), str(number)]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
            assert process.stdout is not None
            for _ in range(20 + round * 7):
                process.stdout.readline()
            os.kill(process.pid, signal.SIGKILL)
            lines = process.stdout.read().splitlines()
        number += 20 + round * 7 + len(lines)
        found = SeriesFiles(tmp_path).read(TASK)
        assert found is not None
        last = found.reading.memory  # which look it was
        assert last >= number - 1
        number = last + 1
        points = found.rings["15m"]
        assert points[-1].at >= START + 10 * (last - 1)  # at most the look that was being written is lost
        assert all(each.cpu == 100 for each in points)
        assert found.summary.cpu == 10.0 * last
    found = SeriesFiles(tmp_path).read(TASK)
    assert found is not None
    assert sum(each.seconds for each in found.rings["lifetime"]) >= 10 * (last - 12)


def test_a_torn_file_is_read_as_far_as_it_is_whole_wherever_it_is_torn(files: SeriesFiles) -> None:
    files.take([look(at) for at in moments(400)])
    path = files.path(TASK)
    whole = path.read_bytes()
    summaries = set()
    for place in range(0, len(whole), 37):
        for torn in (whole[:place], whole[:place] + b"\xa5" * 23 + whole[place + 23 :]):
            path.write_bytes(torn)
            found = SeriesFiles(files.folder).read(TASK)
            if found is not None:
                summaries.add(found.summary.cpu)
                assert all(each.cpu == 100 for points in found.rings.values() for each in points)
    assert summaries <= {400, 390}  # the newest head, or the one before it


@pytest.mark.parametrize("content", GARBAGE.values(), ids=GARBAGE)
def test_a_file_of_garbage_is_begun_anew(files: SeriesFiles, content: bytes) -> None:
    path = files.path(TASK)
    path.parent.mkdir(parents=True)
    path.write_bytes(content)
    assert files.read(TASK) is None
    assert files.summary(TASK) is None
    files.take([look(at) for at in (5, 10)])
    assert [each.cpu for each in rings_of(SeriesFiles(files.folder))["15m"]] == [100, 100]


@contextmanager
def no_room() -> Iterator[None]:
    """Whatever is written to a file is refused by the kernel."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


def test_a_disk_without_room_costs_figures_and_nothing_else(
    files: SeriesFiles, caplog: pytest.LogCaptureFixture
) -> None:
    other = "job.0.worker-1.0"
    files.take([look(5)])
    with no_room():
        files.take([look(10), look(10, task=other)])
        files.take([look(15)])
    assert files.newest[TASK].sample.at == MIDNIGHT + 15  # who looks now still sees them
    assert [record.message for record in caplog.records] == ["could not keep figures of tasks"]
    files.take([look(20), look(20, task=other)])
    for task, times in {TASK: [5, 20], other: [20]}.items():
        found = SeriesFiles(files.folder).read(task)
        assert found is not None
        assert [each.at - MIDNIGHT for each in found.rings["15m"]] == times
        assert found.summary.cpu == 20


def test_a_file_that_cannot_be_read_just_now_is_left_alone(
    files: SeriesFiles, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def broken(*_: object) -> bytes:
        raise OSError(errno.EIO, "Input/output error")

    files.take([look(5)])
    later = SeriesFiles(files.folder)
    with monkeypatch.context() as patched:
        patched.setattr(later, "_first_bytes", broken)
        later.take([look(10)])
        assert later.read(TASK) is None
    assert [record.message for record in caplog.records] == ["could not keep figures of tasks"]
    later.take([look(15)])
    assert [each.at - MIDNIGHT for each in rings_of(later)["15m"]] == [5, 15]


def test_what_is_old_goes_and_what_is_not_stays(files: SeriesFiles) -> None:
    old, new = "job.0.worker-0.0", "job.0.worker-0.1"
    files.take([look(5, task=old), look(5, task=new)])
    os.utime(files.path(old), (1000, 1000))
    files.remove_old("job", 2000)
    assert not files.path(old).exists()
    assert files.path(new).exists()
    os.utime(files.path(new), (1000, 1000))
    files.remove_old("job", 2000)
    assert not files.job_folder("job").exists()
