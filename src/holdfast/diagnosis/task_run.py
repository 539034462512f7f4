"""What is known of one try of one task when it is judged how well it ran."""

from __future__ import annotations

from dataclasses import dataclass

from holdfast.core.job import Resources


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuUse:
    index: int  # as the machine numbers it
    percent: float  # of the measured time that something ran on it
    memory_peak: int  # bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskRun:
    """Figures are None where they cannot be told."""

    task: str  # worker-0
    role: str
    asked: Resources
    seconds: float  # that its command ran
    ended: bool  # so there is no more to come
    first_output: float | None = None  # seconds from its start to the first byte of its log
    measured: float = 0.0  # seconds that the figures tell of; 0: there are none
    cpu_seconds: float | None = None
    throttled: float | None = None  # share of the measured time that its limit kept it from running
    memory_peak: int | None = None  # bytes, without what is cached of files
    memory_limit: int | None = None
    swap_peak: int | None = None
    disk_bytes: int | None = None  # read and written
    disk_wait: float | None = None  # share of the measured time, of all its processes together: may exceed 1
    net_bytes: int | None = None  # in and out
    gpus: tuple[GpuUse, ...] = ()
    gpu_opened: bool | None = None  # ever

    @property
    def cores(self) -> float | None:
        """On the average."""
        return None if self.cpu_seconds is None or self.measured <= 0 else self.cpu_seconds / self.measured

    @property
    def gpu_percent(self) -> float | None:
        """On the average of its GPUs."""
        return sum(gpu.percent for gpu in self.gpus) / len(self.gpus) if self.gpus else None


def show_time(seconds: float) -> str:
    """95 -> 1 min 35 s."""
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    minutes, rest = divmod(whole, 60)
    if minutes < 60:
        return f"{minutes} min {rest} s" if rest and minutes < 10 else f"{minutes} min"
    hours, rest = divmod(minutes, 60)
    return f"{hours} h {rest} min" if rest and hours < 10 else f"{hours} h"
