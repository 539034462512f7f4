"""What is known of a job that failed: all that a verdict may rest on."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta

from holdfast.core.attempt import Outcome
from holdfast.core.exits.exit import Exit
from holdfast.core.job import Job, Role


def always_time() -> bool:
    """Of one who can wait: the time is never up."""
    return False


@dataclass(frozen=True, slots=True)
class Piece:
    """Bytes of a log, and where in it they begin."""

    start: int
    data: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskCase:
    """One task that ended, and what it left."""

    task: str  # worker-0
    role: Role
    exit: Exit
    started_at: datetime | None = None
    ended_at: datetime | None = None
    stopped: bool = False  # by us, when others had decided
    log: tuple[Piece, ...] = ()  # its beginning and its end, or all of it; in order, none overlaps another
    memory_peak: int | None = None  # bytes; None: was not measured
    memory_limit: int | None = None
    errors: tuple[Piece, ...] = ()  # the end of what it wrote as errors, where that may not be in `log`
    held: bool = False  # it is still there, to look around in
    watched: bool = False  # its memory is limited by us, where the kernel does not


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    job: Job
    ref: str = "JOB"  # by which commands name it
    attempt: int  # of the job, from 0
    exit: Exit | None  # of the job, or of the attempt
    message: str = ""  # what the job says of itself
    outcome: Outcome | None = None
    tasks: tuple[TaskCase, ...] = ()  # that failed, first those that ended first; then those that were stopped
    failed: int = 0  # how many did, also those that are not looked at
    time_limit: timedelta | None = None
    time_up: Callable[[], bool] = always_time  # asked between lines: then it is judged by what was found so far
