"""Resource usage of one try of a task."""

from __future__ import annotations

from dataclasses import dataclass, field

from holdfast.core.job import Resources
from holdfast.core.messages import msg
from holdfast.core.metrics.samples import TaskSummary


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskRun:
    task: str  # worker-0
    role: str
    asked: Resources
    seconds: float  # run time of its command
    ended: bool  # its metrics are final
    first_output: float | None = None  # seconds from its start to the first byte of its log; None: unknown
    used: TaskSummary = field(default_factory=TaskSummary)  # empty: not measured

    @property
    def is_measured(self) -> bool:
        return self.used.seconds > 0

    @property
    def cores(self) -> float | None:
        """Average number of busy cores."""
        percent = self.used.cpu_percent
        return None if percent is None else percent / 100

    @property
    def is_gpu_sampled(self) -> bool:
        """Whether its GPUs were sampled for most of its time: they have no counters for the time between."""
        return self.used.sampled > 0 and self.used.sampled >= self.used.seconds / 2

    @property
    def gpu_percent(self) -> float | None:
        return self.used.gpu_percent if self.is_gpu_sampled else None

    @property
    def disk_bytes(self) -> int | None:
        return _add_known(self.used.disk_read, self.used.disk_written)

    @property
    def net_bytes(self) -> int | None:
        return _add_known(self.used.net_in, self.used.net_out)


def _add_known(one: int | None, other: int | None) -> int | None:
    return None if one is None and other is None else (one or 0) + (other or 0)


def format_run_time(seconds: float) -> str:
    """95 -> 1 min 35 s."""
    whole = round(seconds)
    if whole < 60:
        return msg("{whole} s", whole=whole)
    minutes, rest = divmod(whole, 60)
    if minutes < 60:
        return (
            msg("{minutes} min {rest} s", minutes=minutes, rest=rest)
            if rest and minutes < 10
            else msg("{minutes} min", minutes=minutes)
        )
    hours, rest = divmod(minutes, 60)
    return msg("{hours} h {rest} min", hours=hours, rest=rest) if rest and hours < 10 else msg("{hours} h", hours=hours)
