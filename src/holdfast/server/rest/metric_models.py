"""What the API gives about figures: what jobs use, over time and now."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from .models import Given, StateName

RingName = Literal["15m", "1h", "3h", "lifetime"]


class GpuPointView(Given):
    index: int = Field(description="As the machine numbers it.")
    percent: float
    memory: float = Field(description="Bytes in use.")


class PointView(Given):
    at: float = Field(description="Seconds since 1970: the end of the time that it tells of.")
    seconds: float = Field(description="How long that time was.")
    tasks: int = Field(description="How many tasks it is the mean of.")
    cpu: float = Field(description="Percent of one core; may exceed 100.")
    memory: float = Field(description="Bytes.")
    net_in: float = Field(description="Bytes per second of its TCP connections.")
    net_out: float
    disk_read: float = Field(description="Bytes per second that came from disks.")
    disk_written: float
    throttled: float = Field(description="Percent of the time that its limit of CPU kept it from running.")
    disk_wait: float = Field(description="Percent of the time that its processes stood still for disks.")
    gpu: float | None = Field(description="Percent, the mean over all GPUs; null without GPUs.")
    gpu_memory: float | None = Field(description="Bytes of one GPU, the mean.")
    gpus: list[GpuPointView] = Field(description="Each by itself; of a single task only.")


class LimitsView(Given):
    cpu: float | None = Field(description="Cores that a task asked for.")
    memory: float | None = Field(description="Bytes that a task may use.")
    gpu: float | None = Field(description="GPUs that a task asked for.")
    gpu_memory: float | None = Field(description="Bytes that one GPU has; null while that is not known.")


class SeriesView(Given):
    job: str
    attempt: int
    ring: RingName
    interval: float = Field(description="Seconds between two points; in a task's first minute some lie closer.")
    span: float | None = Field(description="Seconds that the series reaches back; null: the whole life of the job.")
    role: str | None
    task: str | None
    points: list[PointView] = Field(description="Oldest first. Where nobody looked, points are missing.")
    tasks: int = Field(description="Tasks that ran, of those asked for.")
    averaged: int = Field(
        description="Of how many tasks the points are the mean: fewer than `tasks` where there are very many (some are "
        "chosen evenly), or where there are no figures of some."
    )
    limits: LimitsView
    measured: bool = Field(description="False: nothing is measured here.")
    final: bool = Field(description="Nothing will be added.")


class GpuNowView(GpuPointView):
    memory_total: int = Field(description="Bytes that it has.")


class FiguresView(Given):
    at: float = Field(description="Seconds since 1970.")
    seconds: float = Field(description="The time up to then that rates are over.")
    cpu: float = Field(description="Percent of one core.")
    memory: float = Field(description="Bytes.")
    memory_limit: int | None
    swap: int | None
    processes: int
    net_in: float = Field(description="Bytes per second of its TCP connections.")
    net_out: float
    disk_read: float
    disk_written: float
    throttled: float = Field(description="Percent of the time.")
    disk_wait: float = Field(description="Percent of the time.")
    gpus: list[GpuNowView]


class TaskNowView(Given):
    task: str
    role: str
    index: int
    state: str
    node: str | None
    cpu_asked: float = Field(description="Cores.")
    memory_asked: int = Field(description="Bytes.")
    gpu_asked: int
    figures: FiguresView | None = Field(description="Null: nobody has looked at it yet, or it does not run.")


class JobNowView(Given):
    job: str
    name: str
    state: StateName
    attempt: int
    tasks: list[TaskNowView] = Field(description="Those that are on a machine; at most 1000.")
    total: int = Field(description="How many those are.")
    measured: bool = Field(description="False: nothing is measured here.")


class LoadView(Given):
    tasks: int = Field(description="How many it is the sum of.")
    cpu: float = Field(description="Percent of one core.")
    memory: float = Field(description="Bytes.")
    net_in: float = Field(description="Bytes per second of its TCP connections.")
    net_out: float
    disk_read: float
    disk_written: float
    gpus: int
    gpu: float | None = Field(description="Percent, the mean over all their GPUs; null without GPUs.")
    gpu_memory: float = Field(description="Bytes, of all their GPUs.")
    gpu_memory_total: int


class PlaceNowView(Given):
    jobs: dict[str, LoadView] = Field(description="By id: jobs of which tasks run and have been looked at.")
    groups: dict[str, LoadView] = Field(description="By name: what these jobs use.")
    nodes: dict[str, LoadView] = Field(description="By name: what all tasks on a machine use.")
    measured: bool = Field(description="False: nothing is measured here.")
