"""Averages of the samples of several tasks, and of all their GPUs."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from .samples import GpuSample, Sample
from .sampling import iter_interval_overlaps


@dataclass(frozen=True, slots=True, kw_only=True)
class MetricsPoint:
    """Means over the running tasks and over time; units as in Sample."""

    at: float
    seconds: float  # that it covers
    tasks: int
    cpu: float
    memory: float
    net_in: float
    net_out: float
    disk_read: float
    disk_written: float
    throttled: float
    disk_wait: float
    gpu: float | None  # percent; None: no GPUs
    gpu_memory: float | None  # bytes of one GPU
    gpus: tuple[GpuSample, ...] = ()  # each by itself, of a single task


def build_points(samples: Iterable[Sample]) -> list[MetricsPoint]:
    """Convert the samples of one task, with its GPUs."""
    return [_build_point(each) for each in samples]


def average_samples(lines: Sequence[Sequence[Sample]], length: float) -> list[MetricsPoint]:
    """Average over tasks, sampled at different times: in intervals of `length` seconds, weighted by overlap."""
    found: dict[int, _SampleSum] = {}
    for number, line in enumerate(lines):
        for sample in line:
            for slot, seconds in iter_interval_overlaps(sample, length):
                if slot not in found:
                    found[slot] = _SampleSum()
                found[slot].add(sample, seconds, number)
    return [found[slot].build_point((slot + 1) * length) for slot in sorted(found)]


class _SampleSum:
    __slots__ = ("gpu", "gpu_memory", "gpu_seconds", "last", "newest", "seconds", "sums", "tasks")

    def __init__(self) -> None:
        self.seconds = self.gpu_seconds = self.gpu = self.gpu_memory = self.newest = 0.0
        self.sums = [0.0] * 8
        self.tasks = 0
        self.last = -1

    def add(self, sample: Sample, seconds: float, task: int) -> None:
        """Add the samples of one task after the other."""
        self.seconds += seconds
        self.tasks += task != self.last
        self.last = task
        self.newest = max(self.newest, sample.at)
        sums = self.sums
        sums[0] += sample.cpu * seconds
        sums[1] += sample.memory * seconds
        sums[2] += sample.net_in * seconds
        sums[3] += sample.net_out * seconds
        sums[4] += sample.disk_read * seconds
        sums[5] += sample.disk_written * seconds
        sums[6] += sample.throttled * seconds
        sums[7] += sample.disk_wait * seconds
        for gpu in sample.gpus:
            self.gpu_seconds += seconds
            self.gpu += gpu.percent * seconds
            self.gpu_memory += gpu.memory * seconds

    def build_point(self, end: float) -> MetricsPoint:
        known = self.gpu_seconds > 0
        cpu, memory, net_in, net_out, read, written, throttled, wait = (each / self.seconds for each in self.sums)
        return MetricsPoint(
            at=min(end, self.newest),
            seconds=self.seconds / self.tasks,
            tasks=self.tasks,
            cpu=cpu,
            memory=memory,
            net_in=net_in,
            net_out=net_out,
            disk_read=read,
            disk_written=written,
            throttled=throttled,
            disk_wait=wait,
            gpu=self.gpu / self.gpu_seconds if known else None,
            gpu_memory=self.gpu_memory / self.gpu_seconds if known else None,
        )


def _build_point(sample: Sample) -> MetricsPoint:
    count = len(sample.gpus)
    return MetricsPoint(
        at=sample.at,
        seconds=sample.seconds,
        tasks=1,
        cpu=sample.cpu,
        memory=sample.memory,
        net_in=sample.net_in,
        net_out=sample.net_out,
        disk_read=sample.disk_read,
        disk_written=sample.disk_written,
        throttled=sample.throttled,
        disk_wait=sample.disk_wait,
        gpu=sum(gpu.percent for gpu in sample.gpus) / count if count else None,
        gpu_memory=sum(gpu.memory for gpu in sample.gpus) / count if count else None,
        gpus=sample.gpus,
    )
