"""What jobs use, as the server tells it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuFigures:
    index: int
    percent: float = 0.0
    memory: float = 0.0  # bytes
    memory_total: int = 0  # bytes; 0: not told


@dataclass(frozen=True, slots=True, kw_only=True)
class MetricPoint:
    """Means over a job's tasks and over the seconds up to `at`."""

    at: float  # seconds since 1970
    seconds: float = 0.0
    tasks: int = 1
    cpu: float = 0.0  # percent of one core
    memory: float = 0.0  # bytes
    net_in: float = 0.0  # bytes per second, TCP
    net_out: float = 0.0
    disk_read: float = 0.0
    disk_written: float = 0.0
    throttled: float = 0.0  # percent of the time
    disk_wait: float = 0.0
    gpu: float | None = None  # percent; None: no GPUs
    gpu_memory: float | None = None  # bytes of one GPU
    gpus: tuple[GpuFigures, ...] = ()  # of a single task


@dataclass(frozen=True, slots=True, kw_only=True)
class MetricLimits:
    cpu: float | None = None  # cores
    memory: float | None = None  # bytes
    gpu: float | None = None
    gpu_memory: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class MetricSeries:
    job: str
    attempt: int = 0
    ring: str = "15m"
    interval: float = 10.0  # seconds
    span: float | None = None  # seconds that it reaches back; None: the whole life
    role: str | None = None
    task: str | None = None
    points: tuple[MetricPoint, ...] = ()  # oldest first
    tasks: int = 0
    averaged: int = 0  # of how many tasks the points are the mean
    limits: MetricLimits = field(default_factory=MetricLimits)
    measured: bool = True  # False: nothing is measured there
    final: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskFigures:
    at: float  # seconds since 1970
    seconds: float = 0.0
    cpu: float = 0.0  # percent of one core
    memory: float = 0.0  # bytes
    memory_limit: int | None = None
    swap: int | None = None
    processes: int = 0
    net_in: float = 0.0  # bytes per second, TCP
    net_out: float = 0.0
    disk_read: float = 0.0
    disk_written: float = 0.0
    throttled: float = 0.0  # percent of the time
    disk_wait: float = 0.0
    gpus: tuple[GpuFigures, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskNow:
    task: str
    role: str = ""
    index: int = 0
    state: str = ""
    node: str | None = None
    cpu_asked: float = 0.0  # cores
    memory_asked: int = 0
    gpu_asked: int = 0
    figures: TaskFigures | None = None  # None: nobody has looked at it yet, or it does not run


@dataclass(frozen=True, slots=True, kw_only=True)
class JobNow:
    job: str  # its id
    name: str = ""
    state: str = ""
    attempt: int = 0
    tasks: tuple[TaskNow, ...] = ()
    total: int = 0
    measured: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Load:
    """What several tasks use together."""

    tasks: int = 0
    cpu: float = 0.0  # percent of one core
    memory: float = 0.0
    net_in: float = 0.0
    net_out: float = 0.0
    disk_read: float = 0.0
    disk_written: float = 0.0
    gpus: int = 0
    gpu: float | None = None  # percent, the mean
    gpu_memory: float = 0.0
    gpu_memory_total: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class PlaceNow:
    jobs: Mapping[str, Load] = field(default_factory=dict)  # by id
    groups: Mapping[str, Load] = field(default_factory=dict)
    nodes: Mapping[str, Load] = field(default_factory=dict)
    measured: bool = True
