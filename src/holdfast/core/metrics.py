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
