"""What has happened to a job so far: its attempts, and what engines saw of them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum

from .attempt_id import AttemptId
from .exits.exit import Exit
from .job import Job, Keep
from .messages import join_messages, msg
from .metrics.samples import Reading
from .states import JobState, TaskState


@dataclass(frozen=True, slots=True, kw_only=True)
class Held:
    """A failed task that is kept for debugging."""

    since: datetime
    until: datetime
    exit: Exit  # how its command ended: what it is given once the hold is over
    keep: Keep
    ended: bool = False  # none of its processes are left, only files
    warned: bool = False  # that it ends soon has been told


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskAttempt:
    """One try of one task, within one attempt of its job."""

    role: str
    index: int  # which instance of the role, from 0
    number: int = 0  # which try of this task within the job attempt, from 0
    state: TaskState = TaskState.WAITING
    node: str | None = None
    gpus: tuple[int, ...] = ()
    ports: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    placed_at: datetime | None = None
    started_at: datetime | None = None
    finished_at: datetime | None = None  # its place was given back: not yet while all of it is held
    exit: Exit | None = None
    stop: Exit | None = None  # set when we asked it to stop: the exit it will be given
    user_retries: int = 0
    platform_retries: int = 0
    retry_at: datetime | None = None
    held: Held | None = None  # while it is held, and of one that was

    @property
    def occupies(self) -> bool:
        """It has its place on a machine: CPU, memory, GPUs and ports are its own."""
        if not self.state.live or self.node is None:
            return False
        return self.held is None or self.held.keep is Keep.ALL or not self.held.ended

    @property
    def worked_until(self) -> datetime | None:
        """Its command ended."""
        return self.held.since if self.held else self.finished_at

    @property
    def task(self) -> str:
        """Its name within the job, such as worker-0."""
        return f"{self.role}-{self.index}"


@dataclass(frozen=True, slots=True, kw_only=True)
class StopRequest:
    actor: str
    at: datetime
    why: str = ""  # what happened, where nobody asked for it by hand: part of a sentence

    @property
    def cancelled(self) -> str:
        """What a job that ended so says."""
        return msg("Cancelled: {why}", why=self.why) if self.why else msg("Cancelled by {actor}", actor=self.actor)

    @property
    def asked(self) -> str:
        asked = msg("{actor} asked for it to stop", actor=self.actor)
        return join_messages(": ", (asked, self.why)) if self.why else asked


class Result(StrEnum):
    SUCCEEDED = "succeeded"
    FAILED = "failed"


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """How a job attempt was decided, and by which task."""

    result: Result
    message: str
    exit: Exit
    role: str | None = None
    index: int | None = None
    reached: int | None = None  # how many tasks of the role had ended so
    needed: int | None = None  # how many it takes by its completion rule; None: no rule decided

    @property
    def task(self) -> str | None:
        """The task to look at, such as worker-0: the one that failed first, or whose success was enough."""
        alone = self.result is Result.FAILED or self.needed == 1
        return f"{self.role}-{self.index}" if alone and self.role is not None else None


@dataclass(frozen=True, slots=True, kw_only=True)
class JobSnapshot:
    """A job and everything that is known of its current attempt."""

    id: str
    job: Job
    user: str
    submitted_at: datetime
    state: JobState = JobState.PENDING
    message: str = ""  # why it is in this state, in plain words
    attempt: int = 0
    tasks: tuple[TaskAttempt, ...] = ()  # the newest try of each task of the current attempt
    stop: StopRequest | None = None
    outcome: Outcome | None = None  # decided; other tasks may still be stopping
    exit: Exit | None = None  # of the job, once final
    user_retries: int = 0
    platform_retries: int = 0
    retry_at: datetime | None = None
    started_at: datetime | None = None  # first time anything of it ran
    attempt_started_at: datetime | None = None
    finished_at: datetime | None = None
    version: int = 0

    def attempt_id(self, task: TaskAttempt) -> str:
        """The text that engines know this try by."""
        return str(AttemptId(self.id, self.attempt, task.role, task.index, task.number))


class Seen(StrEnum):
    ABSENT = "absent"  # never ran; starting it is safe
    RUNNING = "running"
    HELD = "held"  # its command failed, and the rest of it stands as it was
    EXITED = "exited"
    LOST = "lost"  # it ran, and nobody knows how it ended
    REFUSED = "refused"  # could not be started, and will not be without a change


@dataclass(frozen=True, slots=True, kw_only=True)
class Debugger:
    """A debugger inside a task that waits for somebody, or has somebody at it. Told by the task: not to be trusted."""

    id: str  # within the task
    pid: int  # as the task numbers it
    file: str
    line: int
    function: str = ""
    why: str = ""  # start, breakpoint or crash
    port: int = 0
    local: bool = False  # the port is reached from the task's machine alone
    token: str = ""  # what it asks of whoever comes by the port; empty: nothing
    since: datetime
    until: datetime | None = None  # then it goes on, or ends, by itself
    attached: bool = False  # somebody is at it
    waits: bool = True  # it holds the program up: at a prompt, or until somebody comes


@dataclass(frozen=True, slots=True, kw_only=True)
class Observation:
    """What an engine sees of one task attempt."""

    attempt_id: str
    seen: Seen
    started_at: datetime | None = None
    finished_at: datetime | None = None
    elapsed: float | None = None  # seconds it has run, by a clock that does not jump
    code: int | None = None  # with EXITED and HELD
    oom: bool = False
    message: str = ""  # with LOST and REFUSED, and with EXITED for what the engine did: why
    transient: bool = False  # with REFUSED: another try may work
    cause: str = ""  # with EXITED, LOST and REFUSED: what is known of it, a word of exits.Cause
    artifacts: bool = False  # with EXITED: it may have left artifacts, which can be collected
    warning: str = ""  # it runs, but not quite as was asked; the first look at it says so
    debuggers: tuple[Debugger, ...] = ()  # with RUNNING and HELD
    used: Reading | None = None  # with EXITED: in all, as far as it can still be told
