"""Resource usage of a job compared with its request, per role and in total, and advice for smaller requests.

All tries of the last attempt count, because each of them reserved its request. The metrics of a task are means over
the time of all its tries, and its peak is the highest of them; sums are over tasks. Tasks that were not measured (the
server was down, or they never ran) are left out of usage and request, so that the two can be compared. Without any
measured task, usage is None; without a task that ran long enough, its means are None.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from holdfast.core.job import GIB, MIB, Resources
from holdfast.core.messages import join_messages, msg
from holdfast.core.scheduling.placement import format_bytes, format_cores, format_gpus
from holdfast.core.verdicts import Efficiency, ResourceUsage

from .slowness import MAX_IDLE_GPU_PERCENT, MinimumTimes
from .task_run import TaskRun

# Advice leaves a margin: usage varies between runs, and too little memory kills a job.
MEMORY_MARGIN = 1.25
# Smaller savings are not worth a message.
MIN_MEMORY_SAVED = 512 * MIB
MAX_ADVISED_SHARE = 0.5  # of the request
# Over a shorter time, a mean shows only the start of the program.
MIN_SECONDS_FOR_MEANS = 10.0


@dataclass(frozen=True, slots=True, kw_only=True)
class _TaskUsage:
    """All tries of one task."""

    role: str
    asked: Resources
    seconds: float
    measured: bool
    lasting: bool  # ran long enough for means
    advisable: bool  # ran long enough for advice
    cores: float | None
    memory_peak: int | None
    gpus_used: float | None  # average number of busy GPUs
    gpus_working: int | None  # number of GPUs that were not idle
    gpu_memory_peak: int | None


def summarize_efficiency(runs: Iterable[TaskRun], least: MinimumTimes | None = None) -> Efficiency | None:
    """Summarise all tries (`runs`) of one attempt; None if none ran. Advice is only for ended tasks."""
    tries: dict[str, list[TaskRun]] = {}
    for run in runs:
        tries.setdefault(run.task, []).append(run)
    tasks = [_merge_tries(each, least or MinimumTimes()) for each in tries.values()]
    if not tasks:
        return None
    roles: dict[str, list[_TaskUsage]] = {}
    for task in tasks:
        roles.setdefault(task.role, []).append(task)
    advice = [
        text for name, members in roles.items() for text in _build_advice(name if len(roles) > 1 else "", members)
    ]
    return Efficiency(
        whole=_sum_usage(tasks),
        roles={name: _sum_usage(members) for name, members in roles.items()},
        advice=tuple(advice),
    )


def _merge_tries(tries: Sequence[TaskRun], least: MinimumTimes) -> _TaskUsage:
    known = [run for run in tries if run.is_measured]
    watched = [run for run in known if run.is_gpu_sampled and run.used.gpus]
    measured = sum(run.used.seconds for run in known)
    sampled = sum(run.used.sampled for run in watched)
    gpu_seconds = sum(sum(gpu.percent for gpu in run.used.gpus) / 100 * run.used.sampled for run in watched)
    newest = tries[-1]
    seconds = sum(run.seconds for run in tries)
    return _TaskUsage(
        role=newest.role,
        asked=newest.asked,
        seconds=seconds,
        measured=bool(known),
        lasting=seconds >= min(MIN_SECONDS_FOR_MEANS, least.ended),
        advisable=newest.ended and any(least.is_long_enough(run) for run in known),
        cores=sum(run.used.cpu for run in known) / measured if known else None,
        memory_peak=max((run.used.memory_peak for run in known), default=None),
        gpus_used=gpu_seconds / sampled if sampled else None,
        gpus_working=max(
            (sum(gpu.percent >= MAX_IDLE_GPU_PERCENT for gpu in run.used.gpus) for run in watched), default=None
        ),
        gpu_memory_peak=max((sum(gpu.memory_peak for gpu in run.used.gpus) for run in watched), default=None),
    )


def _sum_usage(tasks: Sequence[_TaskUsage]) -> ResourceUsage:
    measured = [task for task in tasks if task.measured]
    those = measured or tasks
    lasting = any(task.lasting for task in measured)
    return ResourceUsage(
        tasks=len(those),
        seconds=sum(task.seconds for task in those),
        cpu_asked=sum(task.asked.cpu for task in those),
        cpu_used=_sum_known(task.cores for task in measured) if lasting else None,
        memory_asked=sum(task.asked.memory for task in those),
        memory_peak=_to_int(_sum_known(task.memory_peak for task in measured)),
        gpu_asked=sum(task.asked.gpu for task in those),
        gpu_used=_sum_known(task.gpus_used for task in measured) if lasting else None,
        gpu_memory_peak=_to_int(_sum_known(task.gpu_memory_peak for task in measured)),
    )


def _sum_known(values: Iterable[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return sum(known) if known else None


def _to_int(value: float | None) -> int | None:
    return None if value is None else int(value)


# -- advice


def _build_advice(role: str, tasks: Sequence[_TaskUsage]) -> list[str]:
    """Return advice for one role, from its task with the highest usage; only after all of them have ended."""
    if not all(task.advisable or not task.measured for task in tasks):
        return []
    known = [task for task in tasks if task.advisable]
    if not known:
        return []
    found = [text for text in (_build_gpu_advice(known), _build_memory_advice(known), _build_cpu_advice(known)) if text]
    return [join_messages(": ", (role, text)) for text in found] if role else found


def _build_memory_advice(tasks: Sequence[_TaskUsage]) -> str | None:
    asked, peak = tasks[0].asked.memory, max(task.memory_peak or 0 for task in tasks)
    enough = round_up_size(int(peak * MEMORY_MARGIN))
    if not peak or enough > MAX_ADVISED_SHARE * asked or asked - enough < MIN_MEMORY_SAVED:
        return None
    return msg(
        "Request {amount} of memory (peak {peak} of {requested}).",
        amount=format_bytes(enough),
        peak=format_bytes(peak),
        requested=format_bytes(asked),
    )


def _build_cpu_advice(tasks: Sequence[_TaskUsage]) -> str | None:
    asked, most = tasks[0].asked.cpu, max(task.cores or 0.0 for task in tasks)
    enough = max(1, math.ceil(round(most, 1)))
    if enough > MAX_ADVISED_SHARE * asked:
        return None
    return msg(
        "Request {amount} (average usage {limit} of {requested}).",
        amount=format_cores(enough),
        limit=f"{most:.1f}",
        requested=format_cores(asked),
    )


def _build_gpu_advice(tasks: Sequence[_TaskUsage]) -> str | None:
    asked = tasks[0].asked.gpu
    working = [task.gpus_working for task in tasks]
    if not asked or any(each is None for each in working):
        return None
    enough = max(each or 0 for each in working)
    if enough >= asked:
        return None
    if enough == 0:
        return msg("Request no GPU ({requested} stayed idle).", requested=format_gpus(asked))
    return msg(
        "Request {amount} ({idle} of {requested} stayed idle).",
        amount=format_gpus(enough),
        idle=asked - enough,
        requested=format_gpus(asked),
    )


def round_up_size(count: int) -> int:
    """Round up to a common size: 64, 128, 256, 512 MiB, then 1, 1.5, 2, 3, 4, 6, 8 GiB and so on."""
    size = 64 * MIB
    while size < count:
        if size >= GIB and size + size // 2 >= count:
            return size + size // 2
        size *= 2
    return size
