"""Allocated (not measured) resources of tasks over time, for usage reports."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta

from ..job import GIB, Resources

HOUR = timedelta(hours=1)


@dataclass(frozen=True, slots=True)
class TimeSpan:
    """Time from `start` until before `end`."""

    start: datetime
    end: datetime

    def compute_overlap_hours(self, begin: datetime, end: datetime) -> float:
        """Return the overlap with another span in hours; 0 if the clock went backwards."""
        return max(0.0, (min(self.end, end) - max(self.start, begin)) / HOUR)


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskUsage:
    """Allocation of one try of one task."""

    job_id: str
    job_name: str
    user: str
    group: str
    task: str  # worker-0
    attempt: int  # of the job
    number: int  # which try of the task
    started_at: datetime
    finished_at: datetime | None  # None: it runs
    resources: Resources


@dataclass(frozen=True, slots=True, kw_only=True)
class UsageTotal:
    """Total of one user in one group."""

    group: str
    user: str
    tasks: int = 0  # tries of tasks
    cpu_hours: float = 0.0
    gpu_hours: float = 0.0
    gb_hours: float = 0.0  # GiB of memory

    def __add__(self, other: UsageTotal) -> UsageTotal:
        return UsageTotal(
            group=self.group,
            user=self.user,
            tasks=self.tasks + other.tasks,
            cpu_hours=self.cpu_hours + other.cpu_hours,
            gpu_hours=self.gpu_hours + other.gpu_hours,
            gb_hours=self.gb_hours + other.gb_hours,
        )


def compute_usage_total(use: TaskUsage, span: TimeSpan, now: datetime) -> UsageTotal:
    """Compute the allocation within the span."""
    hours = TimeSpan(span.start, min(span.end, now)).compute_overlap_hours(use.started_at, use.finished_at or now)
    wanted = use.resources
    return UsageTotal(
        group=use.group,
        user=use.user,
        tasks=1,
        cpu_hours=hours * wanted.cpu,
        gpu_hours=hours * wanted.gpu,
        gb_hours=hours * wanted.memory / GIB,
    )
