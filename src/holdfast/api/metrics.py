"""What jobs use, over time and now."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, Literal

from holdfast.core.states import JobState


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuPoint:
    index: Annotated[int, "As the machine numbers it."]
    percent: float = 0.0
    memory: Annotated[float, "Bytes in use."] = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuMetrics(GpuPoint):
    memory_total: Annotated[int, "Bytes it has; 0: unknown."] = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class MetricPoint:
    """Means over a job's tasks and over the seconds up to `at`."""

    at: Annotated[float, "Seconds since 1970: the end of the time it covers."]
    seconds: Annotated[float, "How long that time was."] = 0.0
    tasks: Annotated[int, "How many tasks it is the mean of."] = 1
    cpu: Annotated[float, "Percent of one core; may exceed 100."] = 0.0
    memory: Annotated[float, "Bytes."] = 0.0
    net_in: Annotated[float, "Bytes per second."] = 0.0
    net_out: Annotated[float, "Bytes per second."] = 0.0
    disk_read: Annotated[float, "Bytes per second read from disks."] = 0.0
    disk_written: Annotated[float, "Bytes per second."] = 0.0
    throttled: Annotated[float, "Percent of the time it was throttled by its CPU limit."] = 0.0
    disk_wait: Annotated[float, "Percent of the time its processes waited for disks."] = 0.0
    gpu: Annotated[float | None, "Percent, the mean over all GPUs; null without GPUs."] = None
    gpu_memory: Annotated[float | None, "Bytes of one GPU, the mean."] = None
    gpus: Annotated[tuple[GpuPoint, ...], "Each GPU; of a single task only."] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class MetricLimits:
    cpu: Annotated[float | None, "Cores a task requested."] = None
    memory: Annotated[float | None, "Bytes a task may use."] = None
    gpu: Annotated[float | None, "GPUs a task requested."] = None
    gpu_memory: Annotated[float | None, "Bytes of one GPU; null: not known yet."] = None


@dataclass(frozen=True, slots=True, kw_only=True)
class MetricSeries:
    job: str
    attempt: int = 0
    ring: Literal["15m", "1h", "3h", "lifetime"] = "15m"
    interval: Annotated[float, "Seconds between two points; fewer in a task's first minute."] = 10.0
    span: Annotated[float | None, "Seconds the series reaches back; null: the whole life of the job."] = None
    role: str | None = None
    task: str | None = None
    points: Annotated[tuple[MetricPoint, ...], "Oldest first; missing where nothing was measured."] = ()
    tasks: Annotated[int, "Tasks that ran, of those selected."] = 0
    averaged: Annotated[
        int,
        "How many tasks the points are the mean of: fewer than `tasks` where some have no data, or of very many.",
    ] = 0
    limits: MetricLimits = field(default_factory=MetricLimits)
    measured: Annotated[bool, "False: metrics are disabled on this server."] = True
    final: Annotated[bool, "No more points will be added."] = False


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskFigures:
    at: Annotated[float, "Seconds since 1970."]
    seconds: Annotated[float, "The time before `at` that rates cover."] = 0.0
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
class TaskNow:
    task: str
    role: str = ""
    index: int = 0
    state: str = ""
    node: str | None = None
    cpu_asked: Annotated[float, "Cores."] = 0.0
    memory_asked: Annotated[int, "Bytes."] = 0
    gpu_asked: int = 0
    figures: Annotated[TaskFigures | None, "Null: not measured yet, or it does not run."] = None


@dataclass(frozen=True, slots=True, kw_only=True)
class JobNow:
    job: Annotated[str, "The job's id."]
    name: str = ""
    state: Annotated[str, JobState] = ""
    attempt: int = 0
    tasks: Annotated[tuple[TaskNow, ...], "Those on a machine; at most 1000."] = ()
    total: Annotated[int, "How many tasks are on a machine."] = 0
    measured: Annotated[bool, "False: metrics are disabled on this server."] = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Load:
    """What several tasks use together."""

    tasks: Annotated[int, "How many tasks it is the sum of."] = 0
    cpu: Annotated[float, "Percent of one core."] = 0.0
    memory: Annotated[float, "Bytes."] = 0.0
    net_in: Annotated[float, "Bytes per second."] = 0.0
    net_out: Annotated[float, "Bytes per second."] = 0.0
    disk_read: Annotated[float, "Bytes per second."] = 0.0
    disk_written: Annotated[float, "Bytes per second."] = 0.0
    gpus: int = 0
    gpu: Annotated[float | None, "Percent, the mean over all their GPUs; null without GPUs."] = None
    gpu_memory: Annotated[float, "Bytes, of all their GPUs."] = 0.0
    gpu_memory_total: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class PlaceNow:
    jobs: Annotated[Mapping[str, Load], "By id: jobs with running tasks that were measured."] = field(
        default_factory=dict
    )
    groups: Annotated[Mapping[str, Load], "By name: what these jobs use."] = field(default_factory=dict)
    nodes: Annotated[Mapping[str, Load], "By name: what all tasks on a machine use."] = field(default_factory=dict)
    measured: Annotated[bool, "False: metrics are disabled on this server."] = True
