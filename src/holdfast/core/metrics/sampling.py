"""Computes samples and task summaries from readings, and interval means from samples."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

from .samples import (
    CPU_HISTOGRAM_BUCKETS,
    GPU_HISTOGRAM_BUCKETS,
    GpuReading,
    GpuSample,
    GpuSummary,
    Reading,
    Sample,
    TaskSummary,
)

MAX_SAMPLE_SECONDS = 60.0  # seconds that one sample covers; longer gaps count in the summary only

_COUNTER_FIELDS = ("net_in", "net_out", "disk_read", "disk_written", "throttled", "disk_wait")
_AVERAGED_FIELDS = ("cpu", "memory", *_COUNTER_FIELDS)

WeightedSample = tuple[Sample, float]  # a sample, and how many of its seconds count


def build_origin_reading(reading: Reading, seconds: float) -> Reading:
    """Return the reading at the task's start, that many seconds before."""
    zeros = {name: None if getattr(reading, name) is None else 0 for name in _COUNTER_FIELDS}
    return replace(reading, at=reading.at - seconds, cpu=0.0, **zeros)  # type: ignore[arg-type]


def complete_last_reading(before: Reading | None, used: Reading, seconds: float) -> Reading:
    """Complete an engine's final reading with values that only a running task has."""
    memory = used.memory or (before.memory if before else 0) or used.memory_peak or 0
    at = before.at + seconds if before else used.at
    return replace(used, at=at, memory=memory, gpus=used.gpus or (before.gpus if before else ()))


def build_sample(before: Reading, after: Reading, at: float) -> Sample | None:
    """Compute the usage between two readings; None if unknown. `at`: seconds since 1970."""
    seconds = after.at - before.at
    if not 0 < seconds <= MAX_SAMPLE_SECONDS:
        return None
    return Sample(
        at=at,
        seconds=seconds,
        cpu=100.0 * _compute_increase(before.cpu, after.cpu) / seconds,
        memory=after.memory,
        net_in=_compute_increase(before.net_in, after.net_in) / seconds,
        net_out=_compute_increase(before.net_out, after.net_out) / seconds,
        disk_read=_compute_increase(before.disk_read, after.disk_read) / seconds,
        disk_written=_compute_increase(before.disk_written, after.disk_written) / seconds,
        throttled=100.0 * _compute_increase(before.throttled, after.throttled) / seconds,
        disk_wait=100.0 * _compute_increase(before.disk_wait, after.disk_wait) / seconds,
        gpus=tuple(GpuSample(index=gpu.index, percent=gpu.percent, memory=gpu.memory) for gpu in after.gpus),
    )


def add_to_summary(summary: TaskSummary, before: Reading, after: Reading, taken: Sample | None) -> TaskSummary:
    """Add the usage between two readings to the summary. Decreasing counters add nothing."""
    seconds = taken.seconds if taken else 0.0
    sampled = summary.sampled + seconds
    return TaskSummary(
        ended=summary.ended,
        seconds=summary.seconds + max(0.0, after.at - before.at),
        sampled=sampled,
        cpu=summary.cpu + _compute_increase(before.cpu, after.cpu),
        throttled=_add_increase(summary.throttled, before.throttled, after.throttled),
        disk_wait=_add_increase(summary.disk_wait, before.disk_wait, after.disk_wait),
        memory_mean=_update_mean(summary.memory_mean, summary.sampled, taken.memory, seconds)
        if taken
        else summary.memory_mean,
        memory_peak=max(summary.memory_peak, after.memory, after.memory_peak or 0),
        memory_limit=summary.memory_limit if after.memory_limit is None else after.memory_limit,
        swap_peak=_get_known_maximum(summary.swap_peak, after.swap),
        net_in=_add_bytes(summary.net_in, before.net_in, after.net_in),
        net_out=_add_bytes(summary.net_out, before.net_out, after.net_out),
        disk_read=_add_bytes(summary.disk_read, before.disk_read, after.disk_read),
        disk_written=_add_bytes(summary.disk_written, before.disk_written, after.disk_written),
        processes_peak=max(summary.processes_peak, after.processes),
        gpus=_add_gpu_readings(summary, after, seconds) if after.gpus else summary.gpus,
        gpu_opened=summary.gpu_opened if after.gpu_opened is None else bool(summary.gpu_opened) or after.gpu_opened,
        cpu_steps=_add_to_histogram(summary.cpu_steps, CPU_HISTOGRAM_BUCKETS, taken.cpu, seconds)
        if taken
        else summary.cpu_steps,
        gpu_steps=_add_to_histogram(summary.gpu_steps, GPU_HISTOGRAM_BUCKETS, compute_gpu_percent(taken), seconds)
        if taken and taken.gpus
        else summary.gpu_steps,
    )


def compute_gpu_percent(sample: Sample) -> float:
    """Return the mean over all its GPUs."""
    return sum(gpu.percent for gpu in sample.gpus) / len(sample.gpus) if sample.gpus else 0.0


def iter_interval_overlaps(sample: Sample, length: float) -> Iterator[tuple[int, float]]:
    """Yield the intervals of this length since 1970 that a sample overlaps, with the overlap in seconds."""
    begin = sample.at - sample.seconds
    number = int(begin // length)
    while number * length < sample.at:
        overlap = min(sample.at, (number + 1) * length) - max(begin, number * length)
        if overlap > 0:
            yield number, overlap
        number += 1


def compute_interval_number(sample: Sample, length: float) -> int:
    """Return the interval of its end; an end on the border belongs to the previous one."""
    return -int(-sample.at // length) - 1


def average_interval(samples: Iterable[Sample], number: int, length: float) -> Sample | None:
    """Return the mean over one interval; None without samples."""
    begin, end = number * length, (number + 1) * length
    parts = []
    for each in samples:
        if each.at > begin and each.at - each.seconds < end:  # faster than computing every overlap
            parts.append((each, min(each.at, end) - max(each.at - each.seconds, begin)))
    return average_weighted_samples(parts, min(end, max(each.at for each, _ in parts))) if parts else None


def average_weighted_samples(parts: Sequence[WeightedSample], at: float) -> Sample:
    """Average samples, weighted by seconds; each GPU separately."""
    if len(parts) == 1:
        return replace(parts[0][0], at=at, seconds=parts[0][1])
    total = sum(seconds for _, seconds in parts)
    return Sample(
        at=at,
        seconds=total,
        gpus=_average_gpus(parts),
        **{name: sum(getattr(part, name) * seconds for part, seconds in parts) / total for name in _AVERAGED_FIELDS},
    )


def _average_gpus(parts: Sequence[WeightedSample]) -> tuple[GpuSample, ...]:
    sums: dict[int, list[float]] = {}
    for part, seconds in parts:
        for gpu in part.gpus:
            found = sums.setdefault(gpu.index, [0.0, 0.0, 0.0])
            found[0] += seconds
            found[1] += gpu.percent * seconds
            found[2] += gpu.memory * seconds
    return tuple(
        GpuSample(index=index, percent=percent / total, memory=memory / total)
        for index, (total, percent, memory) in sorted(sums.items())
    )


def _add_gpu_readings(summary: TaskSummary, after: Reading, seconds: float) -> tuple[GpuSummary, ...]:
    """Add GPU usage, in the order the GPUs were first seen: one may be temporarily unreadable."""
    known = {gpu.index: gpu for gpu in summary.gpus}
    for gpu in after.gpus:
        known[gpu.index] = _add_gpu_reading(known.get(gpu.index, GpuSummary(index=gpu.index)), gpu, seconds)
    return tuple(known.values())


def _add_gpu_reading(before: GpuSummary, gpu: GpuReading, seconds: float) -> GpuSummary:
    return GpuSummary(
        index=gpu.index,
        seconds=before.seconds + seconds,
        percent=_update_mean(before.percent, before.seconds, gpu.percent, seconds),
        percent_peak=max(before.percent_peak, gpu.percent),
        memory_peak=max(before.memory_peak, gpu.memory),
        memory_total=gpu.memory_total,
    )


def _compute_increase(before: float | None, after: float | None) -> float:
    return 0.0 if before is None or after is None else max(0.0, after - before)


def _add_increase(total: float | None, before: float | None, after: float | None) -> float | None:
    """Add the increase of a counter; without an earlier value, all of it."""
    if after is None:
        return total
    return after if total is None else total + _compute_increase(before, after)


def _add_bytes(total: int | None, before: int | None, after: int | None) -> int | None:
    found = _add_increase(total, before, after)
    return None if found is None else int(found)


def _get_known_maximum(first: int | None, second: int | None) -> int | None:
    return first if second is None else max(first or 0, second)


def _update_mean(mean: float | None, seconds: float, value: float, more: float) -> float:
    if mean is None or seconds <= 0:
        return value
    return (mean * seconds + value * more) / (seconds + more)


def _add_to_histogram(
    steps: tuple[float, ...], bounds: tuple[float, ...], value: float, seconds: float
) -> tuple[float, ...]:
    at = bisect_right(bounds, value)
    return (*steps[:at], steps[at] + seconds, *steps[at + 1 :])
