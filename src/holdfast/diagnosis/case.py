"""Evidence about a failed job: the input of a verdict."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta

from holdfast.core.attempt import Outcome
from holdfast.core.exits.exit import Exit
from holdfast.core.job import Job, Role


def never_expires() -> bool:
    return False


@dataclass(frozen=True, slots=True)
class LogExcerpt:
    """Bytes of a log, and their offset in it."""

    start: int
    data: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskDiagnosisInput:
    """A task that ended, with its exit, log and memory usage."""

    task: str  # worker-0
    role: Role
    exit: Exit
    started_at: datetime | None = None
    ended_at: datetime | None = None
    stopped: bool = False  # by Holdfast, after other tasks completed the attempt
    log: tuple[LogExcerpt, ...] = ()  # its beginning and its end, or all of it; in order, without overlaps
    memory_peak: int | None = None  # bytes; None: not measured
    memory_limit: int | None = None
    errors: tuple[LogExcerpt, ...] = ()  # the end of its stderr, if that may not be in `log`
    held: bool = False  # on hold: a shell can be opened in it
    watched: bool = False  # Holdfast enforces its memory limit, because the kernel does not


@dataclass(frozen=True, slots=True, kw_only=True)
class JobDiagnosisInput:
    job: Job
    ref: str = "JOB"  # its name in commands
    attempt: int  # of the job, from 0
    exit: Exit | None  # of the job or the attempt
    message: str = ""  # the job's message
    outcome: Outcome | None = None
    tasks: tuple[TaskDiagnosisInput, ...] = ()  # failed tasks in the order of their ends, then stopped ones
    failed: int = 0  # number of failed tasks, including those not in `tasks`
    time_limit: timedelta | None = None
    time_up: Callable[[], bool] = never_expires  # checked between lines: when true, the findings so far decide
