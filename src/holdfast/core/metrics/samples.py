"""What tasks use: readings of counters, samples made of two readings, and the series that samples are kept in."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuReading:
    index: int  # as the machine numbers it, and TaskAttempt.gpus
    percent: float  # of the time that something ran on it
    memory: int  # bytes in use
    memory_total: int


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuState:
    """How a GPU of a machine does, whoever uses it. None: it does not tell."""

    index: int  # as in GpuReading
    percent: float | None = None
    memory: int | None = None
    memory_total: int | None = None
    temperature: float | None = None  # degrees Celsius
    ecc_single: int | None = None  # errors of its memory that were corrected, since the driver was loaded
    ecc_double: int | None = None  # that could not be
    performance: int | None = None  # 0 is the fastest, 15 the slowest
    foreign_processes: int | None = None  # processes that compute on it, and are no task's


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """What an engine found of one task at one moment. Counters begin at the task's start. None: cannot be told here."""

    at: float  # seconds, by a clock that does not jump
    cpu: float  # seconds of processor time
    throttled: float | None = None  # seconds that it could have run, and was kept from it by its limit
    memory: int  # bytes, without what the kernel caches of files and would give back
    memory_peak: int | None = None
    memory_limit: int | None = None
    swap: int | None = None
    net_in: int | None = None  # bytes
    net_out: int | None = None
    disk_read: int | None = None  # bytes that came from disks, not from caches
    disk_written: int | None = None
    disk_wait: float | None = None  # seconds that its processes stood still for disks
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
    """What a task used in the `seconds` up to `at`: means, and rates per second."""

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


class Ring(NamedTuple):
    """A series of so many points, each the mean of so many seconds; the newest push out the oldest."""

    name: str
    seconds: float
    points: int


# As PrimeHub keeps them; the first also takes the closer samples of a task's first minute.
RINGS = (Ring("15m", 10, 90), Ring("1h", 30, 120), Ring("3h", 120, 90), Ring("lifetime", 300, 8064))


# How long a task was how busy is counted in steps: below the first, from there to below the second, ... above the last.
CPU_STEPS = (1.0, 5.0, 25.0, 50.0, 90.0, 110.0, 150.0, 200.0, 400.0, 800.0, 1600.0, 3200.0)  # percent of one core
GPU_STEPS = (1.0, 5.0, 25.0, 50.0, 75.0, 90.0)  # percent, the mean of a task's GPUs


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuSummary:
    index: int
    seconds: float = 0.0  # that samples tell of this one
    percent: float = 0.0  # mean over these
    percent_peak: float = 0.0
    memory_peak: int = 0
    memory_total: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskSummary:
    """What one try of a task used so far, or in all; without what it did while it was held. None: cannot be told."""

    ended: bool = False  # nothing will be added
    seconds: float = 0.0  # that it worked, until the last figures
    sampled: float = 0.0  # of these, how many samples tell of: what means and steps are over
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
    cpu_steps: tuple[float, ...] = (0.0,) * (len(CPU_STEPS) + 1)  # seconds in each of CPU_STEPS
    gpu_steps: tuple[float, ...] = (0.0,) * (len(GPU_STEPS) + 1)

    @property
    def cpu_percent(self) -> float | None:
        """Mean, of one core."""
        return 100.0 * self.cpu / self.seconds if self.seconds > 0 else None

    @property
    def throttled_share(self) -> float | None:
        """Of its time, from 0 to 1."""
        return self._share(self.throttled)

    @property
    def disk_wait_share(self) -> float | None:
        """Of its time; with several processes it may exceed 1."""
        return self._share(self.disk_wait)

    @property
    def gpu_percent(self) -> float | None:
        """Mean over its GPUs; None: it had none, or nobody looked."""
        if not self.gpus or self.sampled <= 0:
            return None
        return sum(gpu.percent for gpu in self.gpus) / len(self.gpus)

    def _share(self, seconds: float | None) -> float | None:
        return None if seconds is None or self.seconds <= 0 else seconds / self.seconds


@dataclass(frozen=True, slots=True, kw_only=True)
class Current:
    """The newest figures of a task that runs."""

    sample: Sample
    reading: Reading
