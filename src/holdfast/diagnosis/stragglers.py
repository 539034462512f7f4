"""Stragglers: tasks that run longer or use less CPU than the other tasks of their role."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median

from holdfast.core.messages import msg
from holdfast.core.verdicts import Finding, FindingKind

from .task_run import TaskRun, format_run_time

MIN_COMPARED_TASKS = 3  # of two different tasks, neither is the exception
# The others wait for it for at least half of their run time; less is normal variation.
MIN_LONGER_RATIO = 1.5
MIN_LONGER_SECONDS = 60.0
MAX_CPU_RATIO = 0.5  # of the CPU usage of the others
MIN_USUAL_CORES = 0.2  # minimum CPU usage of the others: among idle tasks there is no straggler
MAX_DEVIATION = 0.25  # maximum deviation of the others from their median
MAX_STRAGGLERS = 5  # tasks; more are not exceptions


def find_stragglers(runs: Sequence[TaskRun]) -> list[Finding]:
    """Return the stragglers among the tasks of one role."""
    if len(runs) < MIN_COMPARED_TASKS:
        return []
    return [*_find_longer_tasks(runs), *_find_idle_tasks(runs)]


def _find_longer_tasks(runs: Sequence[TaskRun]) -> list[Finding]:
    """Compare run times, once most tasks have ended."""
    ended = [run.seconds for run in runs if run.ended]
    if len(ended) * 2 <= len(runs):
        return []
    usual = median(ended)
    late = [run for run in runs if run.seconds >= max(MIN_LONGER_RATIO * usual, usual + MIN_LONGER_SECONDS)]
    if not _are_exceptional(late, runs):
        return []
    worst = max(late, key=lambda run: run.seconds)
    return [
        Finding(
            kind=FindingKind.STRAGGLER,
            text=msg(
                "{task} ran for {seconds}; most other tasks of {role} ran for {usual}.",
                task=worst.task,
                seconds=format_run_time(worst.seconds),
                role=worst.role,
                usual=format_run_time(usual),
            ),
            remedy=msg(
                "Check whether it has more or harder work than the other tasks. Give all tasks equal shares, or "
                "distribute the work in small pieces from a queue."
            ),
            tasks=tuple(run.task for run in late),
            values={"seconds": worst.seconds, "others": usual},
        )
    ]


def _find_idle_tasks(runs: Sequence[TaskRun]) -> list[Finding]:
    """Compare CPU usage. The others must be alike, because a leader task differs by design."""
    known = [(run, run.cores) for run in runs if run.cores is not None]
    if len(known) < MIN_COMPARED_TASKS:
        return []
    usual = median(cores for _, cores in known)
    low = [run for run, cores in known if cores < MAX_CPU_RATIO * usual]
    rest = [cores for run, cores in known if run not in low]
    alike = all(abs(cores - usual) <= MAX_DEVIATION * usual for cores in rest)
    if usual < MIN_USUAL_CORES or not alike or not _are_exceptional(low, runs):
        return []
    worst = min(low, key=lambda run: run.cores or 0.0)
    return [
        Finding(
            kind=FindingKind.STRAGGLER,
            text=msg(
                "{task} used {cores} cores; the other tasks of {role} used {usual} each.",
                task=worst.task,
                cores=f"{worst.cores:.2f}",
                role=worst.role,
                usual=f"{usual:.2f}",
            ),
            remedy=msg(
                "Check in its log what it waits for, and whether its share of the work equals that of the others."
            ),
            tasks=tuple(run.task for run in low),
            values={"cores": worst.cores or 0.0, "others": usual},
        )
    ]


def _are_exceptional(some: Sequence[TaskRun], runs: Sequence[TaskRun]) -> bool:
    return 0 < len(some) <= MAX_STRAGGLERS and len(some) * 3 <= len(runs)
