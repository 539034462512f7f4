"""Metrics of jobs, over time and current."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, Literal

from holdfast.core.states import JobState


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuPoint:
    index: Annotated[int, "Index on the node."]
    percent: float = 0.0
    memory: Annotated[float, "Bytes in use."] = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuMetrics(GpuPoint):
    memory_total: Annotated[int, "Total bytes; 0: unknown."] = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class MetricPoint:
    """Means over a job's tasks and over the seconds up to `at`."""

    at: Annotated[float, "Unix time of the end of the interval."]
    seconds: Annotated[float, "Length of the interval."] = 0.0
    tasks: Annotated[int, "Number of tasks averaged."] = 1
    cpu: Annotated[float, "Percent of one core; may exceed 100."] = 0.0
    memory: Annotated[float, "Bytes."] = 0.0
    net_in: Annotated[float, "Bytes per second."] = 0.0
    net_out: Annotated[float, "Bytes per second."] = 0.0
    disk_read: Annotated[float, "Bytes per second read from disks."] = 0.0
    disk_written: Annotated[float, "Bytes per second."] = 0.0
    throttled: Annotated[float, "Percent of the time it was CPU-throttled."] = 0.0
    disk_wait: Annotated[float, "Percent of the time its processes waited for disk I/O."] = 0.0
    gpu: Annotated[float | None, "Percent, mean over all GPUs; null without GPUs."] = None
    gpu_memory: Annotated[float | None, "Bytes per GPU, mean."] = None
    gpus: Annotated[tuple[GpuPoint, ...], "Each GPU; only for a single task."] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class MetricLimits:
    cpu: Annotated[float | None, "Cores requested per task."] = None
    memory: Annotated[float | None, "Memory limit per task in bytes."] = None
    gpu: Annotated[float | None, "GPUs requested per task."] = None
    gpu_memory: Annotated[float | None, "Bytes per GPU; null: not known yet."] = None


@dataclass(frozen=True, slots=True, kw_only=True)
class MetricSeries:
    job: str
    attempt: int = 0
    ring: Literal["15m", "1h", "3h", "lifetime"] = "15m"
    interval: Annotated[float, "Seconds between points; shorter in the first minute of a task."] = 10.0
    span: Annotated[float | None, "Seconds covered by the series; null: the lifetime of the job."] = None
    role: str | None = None
    task: str | None = None
    points: Annotated[tuple[MetricPoint, ...], "Oldest first; intervals without samples are missing."] = ()
    tasks: Annotated[int, "Number of selected tasks that ran."] = 0
    averaged: Annotated[
        int, "Number of tasks averaged; lower than `tasks` if some have no data, or if there are too many."
    ] = 0
    limits: MetricLimits = field(default_factory=MetricLimits)
    measured: Annotated[bool, "False: metrics are disabled on this server."] = True
    final: Annotated[bool, "No more points will be added."] = False


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskMetrics:
    at: Annotated[float, "Unix time."]
    seconds: Annotated[float, "Length of the interval before `at` that rates cover."] = 0.0
    cpu: Annotated[float, "Percent of one core."] = 0.0
    memory: Annotated[float, "Bytes."] = 0.0
    memory_limit: int | None = None
    swap: int | None = None
    processes: int = 0
    net_in: Annotated[float, "Bytes per second."] = 0.0
    net_out: Annotated[float, "Bytes per second."] = 0.0
    disk_read: Annotated[float, "Bytes per second."] = 0.0
    disk_written: Annotated[float, "Bytes per second."] = 0.0
    throttled: Annotated[float, "Percent of the time."] = 0.0
    disk_wait: Annotated[float, "Percent of the time."] = 0.0
    gpus: tuple[GpuMetrics, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskUsage:
    task: str
    role: str = ""
    index: int = 0
    state: str = ""
    node: str | None = None
    host: Annotated[str, "The machine that runs it, if the node stands for several; empty: the node itself."] = ""
    cpu_asked: Annotated[float, "Cores."] = 0.0
    memory_asked: Annotated[int, "Bytes."] = 0
    gpu_asked: int = 0
    metrics: Annotated[TaskMetrics | None, "Null: no sample yet, or not running."] = None


@dataclass(frozen=True, slots=True, kw_only=True)
class JobUsage:
    job: Annotated[str, "The job's id."]
    name: str = ""
    state: Annotated[str, JobState] = ""
    attempt: int = 0
    tasks: Annotated[tuple[TaskUsage, ...], "Tasks on a node; at most 1000."] = ()
    total: Annotated[int, "Number of tasks on a node."] = 0
    measured: Annotated[bool, "False: metrics are disabled on this server."] = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Load:
    """Total usage of several tasks."""

    tasks: Annotated[int, "Number of tasks."] = 0
    cpu: Annotated[float, "Percent of one core."] = 0.0
    memory: Annotated[float, "Bytes."] = 0.0
    net_in: Annotated[float, "Bytes per second."] = 0.0
    net_out: Annotated[float, "Bytes per second."] = 0.0
    disk_read: Annotated[float, "Bytes per second."] = 0.0
    disk_written: Annotated[float, "Bytes per second."] = 0.0
    gpus: int = 0
    gpu: Annotated[float | None, "Percent, mean over all GPUs; null without GPUs."] = None
    gpu_memory: Annotated[float, "Bytes on all GPUs."] = 0.0
    gpu_memory_total: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class InstallationUsage:
    jobs: Annotated[Mapping[str, Load], "Usage by job id."] = field(default_factory=dict)
    groups: Annotated[Mapping[str, Load], "Usage by group."] = field(default_factory=dict)
    nodes: Annotated[Mapping[str, Load], "Usage by node."] = field(default_factory=dict)
    measured: Annotated[bool, "False: metrics are disabled on this server."] = True
