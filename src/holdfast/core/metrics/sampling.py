"""From readings to samples and to the summary of a task; from samples to means over an interval."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

from .samples import CPU_STEPS, GPU_STEPS, GpuReading, GpuSample, GpuSummary, Reading, Sample, TaskSummary

MAX_LENGTH = 60.0  # seconds that one sample may tell of; what lies further apart counts in the summary alone

_COUNTERS = ("net_in", "net_out", "disk_read", "disk_written", "throttled", "disk_wait")

Weighed = tuple[Sample, float]  # a sample, and how many of its seconds count


def origin(reading: Reading, seconds: float) -> Reading:
    """As it would have been found when the task began, that many seconds before."""
    zeros = {name: None if getattr(reading, name) is None else 0 for name in _COUNTERS}
    return replace(reading, at=reading.at - seconds, cpu=0.0, **zeros)  # type: ignore[arg-type]


def last_reading(before: Reading | None, used: Reading, seconds: float) -> Reading:
    """What an engine tells once a task has ended, with what only a look at its processes could have told."""
    memory = used.memory or (before.memory if before else 0) or used.memory_peak or 0
    at = before.at + seconds if before else used.at
    return replace(used, at=at, memory=memory, gpus=used.gpus or (before.gpus if before else ()))


def sample(before: Reading, after: Reading, at: float) -> Sample | None:
    """What was used between two readings of a task; None when that cannot be told. `at`: seconds since 1970."""
    seconds = after.at - before.at
    if not 0 < seconds <= MAX_LENGTH:
        return None
    return Sample(
        at=at,
        seconds=seconds,
        cpu=100.0 * _rise(before.cpu, after.cpu) / seconds,
        memory=after.memory,
        net_in=_rise(before.net_in, after.net_in) / seconds,
        net_out=_rise(before.net_out, after.net_out) / seconds,
        disk_read=_rise(before.disk_read, after.disk_read) / seconds,
        disk_written=_rise(before.disk_written, after.disk_written) / seconds,
        throttled=100.0 * _rise(before.throttled, after.throttled) / seconds,
        disk_wait=100.0 * _rise(before.disk_wait, after.disk_wait) / seconds,
        gpus=tuple(GpuSample(index=gpu.index, percent=gpu.percent, memory=gpu.memory) for gpu in after.gpus),
    )


def count(summary: TaskSummary, before: Reading, after: Reading, taken: Sample | None) -> TaskSummary:
    """The summary with what happened between two readings. Counters that fall add nothing."""
    seconds = taken.seconds if taken else 0.0
    sampled = summary.sampled + seconds
    return TaskSummary(
        ended=summary.ended,
        seconds=summary.seconds + max(0.0, after.at - before.at),
        sampled=sampled,
        cpu=summary.cpu + _rise(before.cpu, after.cpu),
        throttled=_add(summary.throttled, before.throttled, after.throttled),
        disk_wait=_add(summary.disk_wait, before.disk_wait, after.disk_wait),
        memory_mean=_mean(summary.memory_mean, summary.sampled, taken.memory, seconds)
        if taken
        else summary.memory_mean,
        memory_peak=max(summary.memory_peak, after.memory, after.memory_peak or 0),
        memory_limit=summary.memory_limit if after.memory_limit is None else after.memory_limit,
        swap_peak=_most(summary.swap_peak, after.swap),
        net_in=_add_bytes(summary.net_in, before.net_in, after.net_in),
        net_out=_add_bytes(summary.net_out, before.net_out, after.net_out),
        disk_read=_add_bytes(summary.disk_read, before.disk_read, after.disk_read),
        disk_written=_add_bytes(summary.disk_written, before.disk_written, after.disk_written),
        processes_peak=max(summary.processes_peak, after.processes),
        gpus=_count_gpus(summary, after, seconds) if after.gpus else summary.gpus,
        gpu_opened=summary.gpu_opened if after.gpu_opened is None else bool(summary.gpu_opened) or after.gpu_opened,
        cpu_steps=_step(summary.cpu_steps, CPU_STEPS, taken.cpu, seconds) if taken else summary.cpu_steps,
        gpu_steps=_step(summary.gpu_steps, GPU_STEPS, gpu_percent(taken), seconds)
        if taken and taken.gpus
        else summary.gpu_steps,
    )


def gpu_percent(sample: Sample) -> float:
    """Of all its GPUs together."""
    return sum(gpu.percent for gpu in sample.gpus) / len(sample.gpus) if sample.gpus else 0.0


def slots(sample: Sample, length: float) -> Iterator[tuple[int, float]]:
    """The intervals of this length since 1970 that a sample reaches into, and for how many seconds."""
    begin = sample.at - sample.seconds
    number = int(begin // length)
    while number * length < sample.at:
        overlap = min(sample.at, (number + 1) * length) - max(begin, number * length)
        if overlap > 0:
            yield number, overlap
        number += 1


def slot_of(sample: Sample, length: float) -> int:
    """The interval that its end lies in; an end on the border belongs to the one before."""
    return -int(-sample.at // length) - 1


def interval(samples: Iterable[Sample], number: int, length: float) -> Sample | None:
    """The mean over one interval; None where no sample tells of it."""
    begin, end = number * length, (number + 1) * length
    parts = []
    for each in samples:
        overlap = min(each.at, end) - max(each.at - each.seconds, begin)
        if overlap > 0:
            parts.append((each, overlap))
    return mean(parts, min(end, max(each.at for each, _ in parts))) if parts else None


def mean(parts: Sequence[Weighed], at: float) -> Sample:
    """Each counts by its seconds; GPUs are told apart."""
    if len(parts) == 1:
        return replace(parts[0][0], at=at, seconds=parts[0][1])
    total = sum(seconds for _, seconds in parts)
    return Sample(
        at=at,
        seconds=total,
        cpu=sum(part.cpu * seconds for part, seconds in parts) / total,
        memory=sum(part.memory * seconds for part, seconds in parts) / total,
        net_in=sum(part.net_in * seconds for part, seconds in parts) / total,
        net_out=sum(part.net_out * seconds for part, seconds in parts) / total,
        disk_read=sum(part.disk_read * seconds for part, seconds in parts) / total,
        disk_written=sum(part.disk_written * seconds for part, seconds in parts) / total,
        throttled=sum(part.throttled * seconds for part, seconds in parts) / total,
        disk_wait=sum(part.disk_wait * seconds for part, seconds in parts) / total,
        gpus=_mean_gpus(parts),
    )


def _mean_gpus(parts: Sequence[Weighed]) -> tuple[GpuSample, ...]:
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


def _count_gpus(summary: TaskSummary, after: Reading, seconds: float) -> tuple[GpuSummary, ...]:
    """In the order they were first seen in: one that cannot be read for a while keeps its place."""
    known = {gpu.index: gpu for gpu in summary.gpus}
    for gpu in after.gpus:
        known[gpu.index] = _count_gpu(known.get(gpu.index, GpuSummary(index=gpu.index)), gpu, seconds)
    return tuple(known.values())


def _count_gpu(before: GpuSummary, gpu: GpuReading, seconds: float) -> GpuSummary:
    return GpuSummary(
        index=gpu.index,
        seconds=before.seconds + seconds,
        percent=_mean(before.percent, before.seconds, gpu.percent, seconds),
        percent_peak=max(before.percent_peak, gpu.percent),
        memory_peak=max(before.memory_peak, gpu.memory),
        memory_total=gpu.memory_total,
    )


def _rise(before: float | None, after: float | None) -> float:
    return 0.0 if before is None or after is None else max(0.0, after - before)


def _add(total: float | None, before: float | None, after: float | None) -> float | None:
    """Where nothing was known before, the counter tells it all: it began with the task."""
    if after is None:
        return total
    return after if total is None else total + _rise(before, after)


def _add_bytes(total: int | None, before: int | None, after: int | None) -> int | None:
    found = _add(total, before, after)
    return None if found is None else int(found)


def _most(first: int | None, second: int | None) -> int | None:
    return first if second is None else max(first or 0, second)


def _mean(mean: float | None, seconds: float, value: float, more: float) -> float:
    if mean is None or seconds <= 0:
        return value
    return (mean * seconds + value * more) / (seconds + more)


def _step(steps: tuple[float, ...], bounds: tuple[float, ...], value: float, seconds: float) -> tuple[float, ...]:
    at = bisect_right(bounds, value)
    return (*steps[:at], steps[at] + seconds, *steps[at + 1 :])
