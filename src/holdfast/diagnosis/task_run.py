"""What is known of one try of one task when it is judged how well it ran."""

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
    seconds: float  # that its command ran
    ended: bool  # so there is no more to come
    first_output: float | None = None  # seconds from its start to the first byte of its log; None: unknown
    used: TaskSummary = field(default_factory=TaskSummary)  # empty: was not measured

    @property
    def measured(self) -> bool:
        return self.used.seconds > 0

    @property
    def cores(self) -> float | None:
        """On the average."""
        percent = self.used.cpu_percent
        return None if percent is None else percent / 100

    @property
    def watched(self) -> bool:
        """Its GPUs were looked at for most of its time; they keep no count of what they did meanwhile."""
        return self.used.sampled > 0 and self.used.sampled >= self.used.seconds / 2

    @property
    def gpu_percent(self) -> float | None:
        return self.used.gpu_percent if self.watched else None

    @property
    def disk_bytes(self) -> int | None:
        return _both(self.used.disk_read, self.used.disk_written)

    @property
    def net_bytes(self) -> int | None:
        return _both(self.used.net_in, self.used.net_out)


def _both(one: int | None, other: int | None) -> int | None:
    return None if one is None and other is None else (one or 0) + (other or 0)


def show_time(seconds: float) -> str:
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
