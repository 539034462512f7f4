"""Task metrics: readings of counters, samples computed from two readings, and the series of samples."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuReading:
    index: int  # the node's number of it, as in TaskAttempt.gpus
    percent: float  # of the time it was in use
    memory: int  # bytes in use
    memory_total: int


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuState:
    """State of a GPU of a node, for all processes. None: not reported."""

    index: int  # as in GpuReading
    percent: float | None = None
    memory: int | None = None
    memory_total: int | None = None
    temperature: float | None = None  # degrees Celsius
    ecc_single: int | None = None  # errors of its memory that were corrected, since the driver was loaded
    ecc_double: int | None = None  # that could not be
    performance: int | None = None  # 0 is the fastest, 15 the slowest
    foreign_processes: int | None = None  # processes on it that belong to no task


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """Counters of one task at one time, since the task's start. None: not available."""

    at: float  # seconds, monotonic
    cpu: float  # seconds of processor time
    throttled: float | None = None  # seconds that it was throttled by its CPU limit
    memory: int  # bytes, without reclaimable file caches
    memory_peak: int | None = None
    memory_limit: int | None = None
    swap: int | None = None
    net_in: int | None = None  # bytes
    net_out: int | None = None
    disk_read: int | None = None  # bytes from disks, not from caches
    disk_written: int | None = None
    disk_wait: float | None = None  # seconds that its processes waited for disks
    processes: int = 0
    gpus: tuple[GpuReading, ...] = ()
    gpu_opened: bool | None = None  # any of its processes has a GPU open; None without GPUs


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuSample:
    index: int
    percent: float
    memory: float  # bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """Usage of a task in the `seconds` before `at`: means, and rates per second."""

    at: float  # seconds since 1970
    seconds: float
    cpu: float  # percent of one core, may exceed 100
    memory: float  # bytes
    net_in: float = 0.0  # bytes per second
    net_out: float = 0.0
    disk_read: float = 0.0
    disk_written: float = 0.0
    throttled: float = 0.0  # percent of the time
    disk_wait: float = 0.0  # percent of the time; with several processes it may exceed 100
    gpus: tuple[GpuSample, ...] = ()


class RingBufferSpec(NamedTuple):
    """A ring buffer of `points` points, each the mean of `seconds` seconds."""

    name: str
    seconds: float
    points: int


# The same as PrimeHub's; the first also has the samples of a task's first minute.
RING_BUFFER_SPECS = (
    RingBufferSpec("15m", 10, 90),
    RingBufferSpec("1h", 30, 120),
    RingBufferSpec("3h", 120, 90),
    RingBufferSpec("lifetime", 300, 8064),
)


# Bounds of usage histograms: below the first, from there to below the second, ... above the last.
CPU_HISTOGRAM_BUCKETS = (
    1.0,
    5.0,
    25.0,
    50.0,
    90.0,
    110.0,
    150.0,
    200.0,
    400.0,
    800.0,
    1600.0,
    3200.0,
)  # percent of one core
GPU_HISTOGRAM_BUCKETS = (1.0, 5.0, 25.0, 50.0, 75.0, 90.0)  # percent, the mean of a task's GPUs


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuSummary:
    index: int
    seconds: float = 0.0  # covered by samples
    percent: float = 0.0  # mean over these
    percent_peak: float = 0.0
    memory_peak: int = 0
    memory_total: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskSummary:
    """Total usage of one try of a task, without the time on hold. None: not available."""

    ended: bool = False  # nothing will be added
    seconds: float = 0.0  # that it ran, until the last reading
    sampled: float = 0.0  # of these, covered by samples: the base of means and steps
    cpu: float = 0.0  # seconds of processor time
    throttled: float | None = None  # seconds
    disk_wait: float | None = None  # seconds
    memory_mean: float | None = None  # bytes
    memory_peak: int = 0
    memory_limit: int | None = None
    swap_peak: int | None = None
    net_in: int | None = None  # bytes
    net_out: int | None = None
    disk_read: int | None = None
    disk_written: int | None = None
    processes_peak: int = 0
    gpus: tuple[GpuSummary, ...] = ()
    gpu_opened: bool | None = None  # ever
    cpu_steps: tuple[float, ...] = (0.0,) * (len(CPU_HISTOGRAM_BUCKETS) + 1)  # seconds in each of CPU_HISTOGRAM_BUCKETS
    gpu_steps: tuple[float, ...] = (0.0,) * (len(GPU_HISTOGRAM_BUCKETS) + 1)

    @property
    def cpu_percent(self) -> float | None:
        """Mean, in percent of one core."""
        return 100.0 * self.cpu / self.seconds if self.seconds > 0 else None

    @property
    def throttled_share(self) -> float | None:
        """Share of its time, from 0 to 1."""
        return self._compute_share(self.throttled)

    @property
    def disk_wait_share(self) -> float | None:
        """Share of its time; with several processes it can exceed 1."""
        return self._compute_share(self.disk_wait)

    @property
    def gpu_percent(self) -> float | None:
        """Mean over its GPUs; None: no GPUs, or not sampled."""
        if not self.gpus or self.sampled <= 0:
            return None
        return sum(gpu.percent for gpu in self.gpus) / len(self.gpus)

    def _compute_share(self, seconds: float | None) -> float | None:
        return None if seconds is None or self.seconds <= 0 else seconds / self.seconds


@dataclass(frozen=True, slots=True, kw_only=True)
class CurrentMetrics:
    """The newest metrics of a running task."""

    sample: Sample
    reading: Reading
