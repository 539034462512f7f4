"""What a job used of what it asked for, per role and as a whole, and what would have been enough.

All tries of its last attempt count: each of them had what it asked for, and kept others from it. A task's figures are
the means over the time of its tries together, its peaks the highest of any; sums are over tasks. Tasks that were not
measured (the platform was down, or they never ran) are left out, of what was asked for as well: so the two can be
compared. Where none was measured, what was used is None; where none ran for long, its means are.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from holdfast.core.job import GIB, MIB, Resources
from holdfast.core.messages import join_messages, msg
from holdfast.core.scheduling.placement import show_bytes, show_cores, show_gpus
from holdfast.core.verdicts import Efficiency, Used

from .slowness import GPU_IDLE, Least
from .task_run import TaskRun

# Advice leaves room: what is there today may be a little more tomorrow, and too little memory ends a job.
MEMORY_ROOM = 1.25
# Less is not worth a second look.
MEMORY_SAVED = 512 * MIB
MUCH_LESS = 0.5  # of what was asked for
# Of less time a mean tells how the program started, not how it works.
MIN_FOR_MEANS = 10.0  # seconds


@dataclass(frozen=True, slots=True, kw_only=True)
class _Task:
    """All tries of one task."""

    role: str
    asked: Resources
    seconds: float
    measured: bool
    lasting: bool  # long enough for its means
    told: bool  # and for advice
    cores: float | None
    memory_peak: int | None
    gpus_used: float | None  # GPUs' worth of work
    gpus_working: int | None  # how many did anything
    gpu_memory_peak: int | None


def summarise(runs: Iterable[TaskRun], least: Least | None = None) -> Efficiency | None:
    """`runs`: every try of every task of one attempt. None when nothing of it ran. Advice is for those that ended."""
    tries: dict[str, list[TaskRun]] = {}
    for run in runs:
        tries.setdefault(run.task, []).append(run)
    tasks = [_merged(each, least or Least()) for each in tries.values()]
    if not tasks:
        return None
    roles: dict[str, list[_Task]] = {}
    for task in tasks:
        roles.setdefault(task.role, []).append(task)
    advice = [text for name, members in roles.items() for text in _advice(name if len(roles) > 1 else "", members)]
    return Efficiency(
        whole=_used(tasks), roles={name: _used(members) for name, members in roles.items()}, advice=tuple(advice)
    )


def _merged(tries: Sequence[TaskRun], least: Least) -> _Task:
    known = [run for run in tries if run.measured]
    watched = [run for run in known if run.watched and run.used.gpus]
    measured = sum(run.used.seconds for run in known)
    looked = sum(run.used.sampled for run in watched)
    newest = tries[-1]
    seconds = sum(run.seconds for run in tries)
    return _Task(
        role=newest.role,
        asked=newest.asked,
        seconds=seconds,
        measured=bool(known),
        lasting=seconds >= min(MIN_FOR_MEANS, least.ended),
        told=newest.ended and any(least.told(run) for run in known),
        cores=sum(run.used.cpu for run in known) / measured if known else None,
        memory_peak=max((run.used.memory_peak for run in known), default=None),
        gpus_used=_work(watched) / looked if looked else None,
        gpus_working=max((_working(run) for run in watched), default=None),
        gpu_memory_peak=max((sum(gpu.memory_peak for gpu in run.used.gpus) for run in watched), default=None),
    )


def _work(runs: Sequence[TaskRun]) -> float:
    """GPUs times seconds."""
    return sum(sum(gpu.percent for gpu in run.used.gpus) / 100 * run.used.sampled for run in runs)


def _working(run: TaskRun) -> int:
    return sum(gpu.percent >= GPU_IDLE for gpu in run.used.gpus)


def _used(tasks: Sequence[_Task]) -> Used:
    measured = [task for task in tasks if task.measured]
    those = measured or tasks
    lasting = any(task.lasting for task in measured)
    return Used(
        tasks=len(those),
        seconds=sum(task.seconds for task in those),
        cpu_asked=sum(task.asked.cpu for task in those),
        cpu_used=_sum(task.cores for task in measured) if lasting else None,
        memory_asked=sum(task.asked.memory for task in those),
        memory_peak=_whole(_sum(task.memory_peak for task in measured)),
        gpu_asked=sum(task.asked.gpu for task in those),
        gpu_used=_sum(task.gpus_used for task in measured) if lasting else None,
        gpu_memory_peak=_whole(_sum(task.gpu_memory_peak for task in measured)),
    )


def _sum(values: Iterable[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return sum(known) if known else None


def _whole(value: float | None) -> int | None:
    return None if value is None else int(value)


# -- advice


def _advice(role: str, tasks: Sequence[_Task]) -> list[str]:
    """For one role, by its task that used most; only once all of them have ended."""
    if not all(task.told or not task.measured for task in tasks):
        return []
    known = [task for task in tasks if task.told]
    if not known:
        return []
    found = [text for text in (_about_gpus(known), _about_memory(known), _about_cores(known)) if text]
    return [join_messages(": ", (role, text)) for text in found] if role else found


def _about_memory(tasks: Sequence[_Task]) -> str | None:
    asked, peak = tasks[0].asked.memory, max(task.memory_peak or 0 for task in tasks)
    enough = nice_size(int(peak * MEMORY_ROOM))
    if not peak or enough > MUCH_LESS * asked or asked - enough < MEMORY_SAVED:
        return None
    return msg(
        "{enough} of memory would have been enough (peak {peak} of {asked}).",
        enough=show_bytes(enough),
        peak=show_bytes(peak),
        asked=show_bytes(asked),
    )


def _about_cores(tasks: Sequence[_Task]) -> str | None:
    asked, most = tasks[0].asked.cpu, max(task.cores or 0.0 for task in tasks)
    enough = max(1, math.ceil(round(most, 1)))
    if enough > MUCH_LESS * asked:
        return None
    return msg(
        "{enough} would have been enough (it used {most} of {asked} on the average).",
        enough=show_cores(enough),
        most=f"{most:.1f}",
        asked=show_cores(asked),
    )


def _about_gpus(tasks: Sequence[_Task]) -> str | None:
    asked = tasks[0].asked.gpu
    working = [task.gpus_working for task in tasks]
    if not asked or any(each is None for each in working):
        return None
    enough = max(each or 0 for each in working)
    if enough >= asked:
        return None
    if enough == 0:
        return msg("It would have needed no GPU (it computed on none of {asked}).", asked=show_gpus(asked))
    return msg(
        "{enough} would have been enough ({x1} of {asked} did nothing).",
        enough=show_gpus(enough),
        x1=asked - enough,
        asked=show_gpus(asked),
    )


def nice_size(count: int) -> int:
    """The next size up that people write: 64, 128, 256, 512 MiB, then 1, 1.5, 2, 3, 4, 6, 8 GiB and so on."""
    size = 64 * MIB
    while size < count:
        if size >= GIB and size + size // 2 >= count:
            return size + size // 2
        size *= 2
    return size
