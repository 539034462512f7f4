"""Tasks that hold up the others of their role: one that runs longer, or does less, than all of the rest."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median

from holdfast.core.messages import msg
from holdfast.core.verdicts import Finding, Slowness

from .task_run import TaskRun, show_time

MIN_TASKS = 3  # of two that differ, nobody can say which is the odd one
# The others wait for it, if at all, for half of their own time; less is the luck of the draw.
LONGER = 1.5
LONGER_SECONDS = 60.0
LESS = 0.5  # of the processor time of the others
LESS_CORES = 0.2  # that the others use at least: of idle tasks, none does less
ALIKE = 0.25  # how far the others may lie from their own middle, to be alike
MAX_TOLD = 5  # tasks; with more, they are no exceptions


def find_stragglers(runs: Sequence[TaskRun]) -> list[Finding]:
    """Among the tasks of one role."""
    if len(runs) < MIN_TASKS:
        return []
    return [*_longer(runs), *_less(runs)]


def _longer(runs: Sequence[TaskRun]) -> list[Finding]:
    """Of those that ended, and of those that are left when most have."""
    ended = [run.seconds for run in runs if run.ended]
    if len(ended) * 2 <= len(runs):
        return []
    usual = median(ended)
    late = [run for run in runs if run.seconds >= max(LONGER * usual, usual + LONGER_SECONDS)]
    if not _exceptions(late, runs):
        return []
    worst = max(late, key=lambda run: run.seconds)
    return [
        Finding(
            kind=Slowness.STRAGGLER,
            text=msg(
                "{task} ran for {seconds}, most others of {role} for {usual}.",
                task=worst.task,
                seconds=show_time(worst.seconds),
                role=worst.role,
                usual=show_time(usual),
            ),
            remedy=msg(
                "See whether it was given more work than the others, or harder work. Give all tasks "
                "equal shares, or let each take the next small piece when it is done with one."
            ),
            tasks=tuple(run.task for run in late),
            figures={"seconds": worst.seconds, "others": usual},
        )
    ]


def _less(runs: Sequence[TaskRun]) -> list[Finding]:
    """Among those that run side by side or have ended; the others must be alike, or every role with a leader would
    have one."""
    known = [(run, run.cores) for run in runs if run.cores is not None]
    if len(known) < MIN_TASKS:
        return []
    usual = median(cores for _, cores in known)
    low = [run for run, cores in known if cores < LESS * usual]
    rest = [cores for run, cores in known if run not in low]
    alike = all(abs(cores - usual) <= ALIKE * usual for cores in rest)
    if usual < LESS_CORES or not alike or not _exceptions(low, runs):
        return []
    worst = min(low, key=lambda run: run.cores or 0.0)
    return [
        Finding(
            kind=Slowness.STRAGGLER,
            text=msg(
                "{task} used {cores} cores, the others of {role} {usual} each.",
                task=worst.task,
                cores=f"{worst.cores:.2f}",
                role=worst.role,
                usual=f"{usual:.2f}",
            ),
            remedy=msg(
                "See in its log what it waits for, and whether its share of the work is as large as that of others."
            ),
            tasks=tuple(run.task for run in low),
            figures={"cores": worst.cores or 0.0, "others": usual},
        )
    ]


def _exceptions(some: Sequence[TaskRun], runs: Sequence[TaskRun]) -> bool:
    return 0 < len(some) <= MAX_TOLD and len(some) * 3 <= len(runs)
