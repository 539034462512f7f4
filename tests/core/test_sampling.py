"""Readings -> samples -> means and summaries, against sums done another way."""

from __future__ import annotations

import itertools
import random
from dataclasses import replace

import pytest

from holdfast.core.metrics.averaging import average_samples, build_points
from holdfast.core.metrics.samples import CPU_HISTOGRAM_BUCKETS, GpuReading, GpuSample, Reading, Sample, TaskSummary
from holdfast.core.metrics.sampling import (
    MAX_SAMPLE_SECONDS,
    add_to_summary,
    average_interval,
    build_origin_reading,
    build_sample,
    complete_last_reading,
    compute_interval_number,
    iter_interval_overlaps,
)

MIB = 2**20


def reading(at: float, cpu: float, **more: object) -> Reading:
    return Reading(**{"at": at, "cpu": cpu, "memory": 100 * MIB, **more})  # type: ignore[arg-type]


def test_two_readings_give_rates_per_second_of_the_clock_that_does_not_jump() -> None:
    before = reading(100, 3.0, net_in=1000, net_out=0, disk_read=0, disk_written=500, throttled=0.0, disk_wait=1.0)
    after = reading(
        110, 18.0, net_in=21000, net_out=10, disk_read=0, disk_written=1500, throttled=2.5, disk_wait=2.0, memory=7
    )
    found = build_sample(before, after, at=5e8)
    assert found == Sample(
        at=5e8, seconds=10, cpu=150, memory=7, net_in=2000, net_out=1, disk_written=100, throttled=25, disk_wait=10
    )


def test_a_counter_that_falls_or_appears_is_no_rate() -> None:
    found = build_sample(reading(0, 9.0, net_in=500), reading(10, 4.0, net_in=100, disk_read=10**9), at=0)
    assert found is not None
    assert (found.cpu, found.net_in, found.disk_read) == (0, 0, 0)


@pytest.mark.parametrize("later", [0, -5, MAX_SAMPLE_SECONDS + 1])
def test_readings_that_tell_nothing_of_the_time_between_give_no_sample(later: float) -> None:
    assert build_sample(reading(100, 1.0), reading(100 + later, 2.0), at=0) is None


def test_a_new_task_is_measured_from_its_beginning() -> None:
    first = reading(50, 1.5, net_in=300, disk_wait=None)
    found = build_sample(build_origin_reading(first, 3.0), first, at=10)
    assert found is not None
    assert (found.seconds, found.cpu, found.net_in) == (3.0, 50.0, 100.0)


def test_the_summary_adds_up_what_readings_tell_though_some_gave_no_sample() -> None:
    steps = [
        reading(0, 0.0, net_in=0, swap=0, processes=1),
        reading(10, 10.0, net_in=100, memory=200 * MIB, swap=5, processes=9),
        reading(400, 20.0, net_in=300, memory=300 * MIB, swap=1, processes=2),  # nobody looked for a while
        reading(420, 19.0, net_in=310, memory=100 * MIB, memory_peak=900 * MIB),  # a process is gone, with its time
        reading(430, 20.0, net_in=310, memory=100 * MIB),
    ]
    summary = TaskSummary()
    for before, after in itertools.pairwise(steps):
        summary = add_to_summary(summary, before, after, build_sample(before, after, at=after.at))
    assert (summary.seconds, summary.sampled, summary.cpu) == (430, 40, 21)
    assert (summary.net_in, summary.disk_read, summary.swap_peak, summary.processes_peak) == (310, None, 5, 9)
    assert summary.memory_peak == 900 * MIB
    assert summary.memory_mean == (200 * MIB * 10 + 100 * MIB * 30) / 40  # by time, not by sample
    assert summary.cpu_percent == pytest.approx(100 * 21 / 430)
    by_step = dict(zip((0.0, *CPU_HISTOGRAM_BUCKETS), summary.cpu_steps, strict=True))
    assert {step: seconds for step, seconds in by_step.items() if seconds} == {0.0: 20, 5.0: 10, 90.0: 10}


def test_gpus_are_summed_up_each_by_itself_also_while_one_cannot_be_read() -> None:
    def gpus(*percents: float | None) -> tuple[GpuReading, ...]:
        return tuple(
            GpuReading(index=index, percent=percent, memory=int(percent) * MIB, memory_total=1000 * MIB)
            for index, percent in enumerate(percents)
            if percent is not None
        )

    steps = [
        reading(0, 0, gpus=gpus(0, 0), gpu_opened=False),
        reading(10, 0, gpus=gpus(100, 20), gpu_opened=True),
        reading(15, 0, gpus=gpus(None, 80), gpu_opened=False),
        reading(20, 0, gpus=gpus(40, 20), gpu_opened=False),
    ]
    summary = TaskSummary()
    for before, after in itertools.pairwise(steps):
        summary = add_to_summary(summary, before, after, build_sample(before, after, at=0))
    assert [gpu.index for gpu in summary.gpus] == [0, 1]
    assert summary.gpus[0].percent == (100 * 10 + 40 * 5) / 15  # by the time that somebody looked at it
    assert summary.gpus[1].percent == (20 * 10 + 80 * 5 + 20 * 5) / 20
    assert [gpu.seconds for gpu in summary.gpus] == [15, 20]
    assert (summary.gpus[0].percent_peak, summary.gpus[0].memory_peak) == (100, 100 * MIB)
    assert summary.gpu_opened is True


def test_the_time_before_a_gpu_was_first_read_does_not_count_as_idle() -> None:
    gpu = GpuReading(index=0, percent=80, memory=MIB, memory_total=1000 * MIB)
    steps = [reading(0, 0), reading(30, 0), reading(40, 0, gpus=(gpu,)), reading(50, 0, gpus=(gpu,))]
    summary = TaskSummary()
    for before, after in itertools.pairwise(steps):
        summary = add_to_summary(summary, before, after, build_sample(before, after, at=0))
    assert (summary.sampled, summary.gpus[0].seconds, summary.gpu_percent) == (50, 20, 80)


def test_what_an_engine_tells_of_the_end_keeps_what_only_a_look_could_tell() -> None:
    gpu = GpuReading(index=3, percent=50, memory=1, memory_total=2)
    before = reading(100, 5.0, gpus=(gpu,))
    used = Reading(at=999, cpu=7.0, memory=0, memory_peak=300 * MIB)
    last = complete_last_reading(before, used, 4.0)
    assert (last.at, last.cpu, last.memory, last.gpus) == (104, 7.0, 100 * MIB, (gpu,))
    assert complete_last_reading(None, used, 2.0).memory == 300 * MIB  # too short for any look


def test_intervals_are_means_by_seconds_and_share_what_lies_across_their_border() -> None:
    found = [Sample(at=at, seconds=5, cpu=at, memory=at) for at in (5.0, 10.0, 12.5, 17.5, 31.0)]
    found[2] = replace(found[2], seconds=2.5)
    # The interval from 10 to 20: all of the third, all of the fourth, nothing else.
    ten = average_interval(found, 1, 10)
    assert ten is not None
    assert (ten.seconds, ten.at) == (7.5, 17.5)
    assert ten.cpu == pytest.approx((12.5 * 2.5 + 17.5 * 5) / 7.5)
    across = average_interval(found, 2, 10)
    assert across is not None
    assert (across.seconds, across.cpu) == (4, 31)
    assert average_interval(found, 7, 10) is None
    assert list(iter_interval_overlaps(found[4], 10)) == [(2, 4), (3, 1)]
    assert [compute_interval_number(Sample(at=at, seconds=1, cpu=0, memory=0), 10) for at in (9.9, 10, 10.1)] == [
        0,
        0,
        1,
    ]


def test_the_mean_of_intervals_is_the_mean_of_all() -> None:
    chance = random.Random(7)
    samples, at = [], 1000.0
    for _ in range(500):
        seconds = chance.uniform(4, 12)
        at += seconds
        samples.append(Sample(at=at, seconds=seconds, cpu=chance.uniform(0, 800), memory=chance.uniform(0, 2**36)))
    total = sum(each.seconds for each in samples)
    numbers = range(1000 // 30, int(at // 30) + 1)
    means = [mean for number in numbers if (mean := average_interval(samples, number, 30)) is not None]
    assert sum(each.seconds for each in means) == pytest.approx(total)
    for name in ("cpu", "memory"):
        whole = sum(getattr(each, name) * each.seconds for each in samples) / total
        again = sum(getattr(each, name) * each.seconds for each in means) / total
        assert again == pytest.approx(whole)


def test_a_job_is_the_mean_over_its_tasks_and_over_all_their_gpus() -> None:
    one = GpuSample(index=0, percent=90, memory=30)
    two = GpuSample(index=1, percent=30, memory=60)
    lines = [
        [Sample(at=10, seconds=10, cpu=100, memory=1), Sample(at=20, seconds=10, cpu=100, memory=1)],
        [Sample(at=10, seconds=10, cpu=300, memory=3, gpus=(one, two))],
        [Sample(at=9, seconds=5, cpu=400, memory=2, gpus=(one,))],
    ]
    first, second = average_samples(lines, 10)
    assert (first.at, first.tasks, first.seconds) == (10, 3, pytest.approx(25 / 3))
    assert first.cpu == pytest.approx((100 * 10 + 300 * 10 + 400 * 5) / 25)
    assert first.gpu == pytest.approx((90 * 10 + 30 * 10 + 90 * 5) / 25)
    assert first.gpu_memory == pytest.approx((30 * 10 + 60 * 10 + 30 * 5) / 25)
    assert (second.tasks, second.cpu, second.gpu) == (1, 100, None)
    (alone,) = build_points(lines[1])
    assert (alone.gpu, alone.gpus, alone.at) == (60, (one, two), 10)
