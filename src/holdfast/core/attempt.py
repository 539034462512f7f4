"""The history of a job: its attempts, and what engines observed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum

from .attempt_id import AttemptId
from .exits.exit import Exit
from .job import HoldScope, Job
from .messages import join_messages, msg
from .metrics.samples import Reading
from .states import JobState, TaskState


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskHold:
    """A failed task that is on hold for debugging."""

    since: datetime
    until: datetime
    exit: Exit  # how its command ended: its exit after the hold
    keep: HoldScope
    ended: bool = False  # none of its processes are left, only files
    warned: bool = False  # its owner was notified that it expires soon


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskAttempt:
    """One try of one task, within one attempt of its job."""

    role: str
    index: int  # which instance of the role, from 0
    number: int = 0  # which try of this task within the job attempt, from 0
    state: TaskState = TaskState.WAITING
    engine: str = ""  # runs it; fixed when it is placed
    node: str | None = None
    host: str = ""  # the machine that runs it, if its node stands for several; empty: the node itself, or not known yet
    gpus: tuple[int, ...] = ()
    ports: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    placed_at: datetime | None = None
    started_at: datetime | None = None
    finished_at: datetime | None = None  # its resources were released: not yet while all of it is on hold
    exit: Exit | None = None
    stop: Exit | None = None  # set when a stop was requested: its future exit
    user_retries: int = 0
    platform_retries: int = 0
    retry_at: datetime | None = None
    held: TaskHold | None = None  # also after the hold

    @property
    def occupies_node(self) -> bool:
        """Whether it uses CPU, memory, GPUs and ports of a node."""
        if not self.state.live or self.node is None:
            return False
        return self.held is None or self.held.keep is HoldScope.ALL or not self.held.ended

    @property
    def machine(self) -> str | None:
        """Name of the machine that runs it, as shown to users; None: not placed."""
        return self.host or self.node

    @property
    def worked_until(self) -> datetime | None:
        """When its command ended."""
        return self.held.since if self.held else self.finished_at

    @property
    def task(self) -> str:
        """Its name within the job, such as worker-0."""
        return f"{self.role}-{self.index}"


@dataclass(frozen=True, slots=True, kw_only=True)
class StopRequest:
    actor: str
    at: datetime
    why: str = ""  # reason of an automatic stop: part of a sentence

    @property
    def cancelled_message(self) -> str:
        """The message of a job that ended by this request."""
        return msg("Cancelled: {why}", why=self.why) if self.why else msg("Cancelled by {actor}", actor=self.actor)

    @property
    def request_message(self) -> str:
        asked = msg("{actor} requested a stop", actor=self.actor)
        return join_messages(": ", (asked, self.why)) if self.why else asked


class OutcomeResult(StrEnum):
    SUCCEEDED = "succeeded"
    FAILED = "failed"


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """How a job attempt was decided, and by which task."""

    result: OutcomeResult
    message: str
    exit: Exit
    role: str | None = None
    index: int | None = None
    reached: int | None = None  # how many tasks of the role had ended this way
    needed: int | None = None  # required by its completion rule; None: no rule decided

    @property
    def task(self) -> str | None:
        """The task that decided it, such as worker-0: the first that failed, or the one whose success was enough."""
        alone = self.result is OutcomeResult.FAILED or self.needed == 1
        return f"{self.role}-{self.index}" if alone and self.role is not None else None


@dataclass(frozen=True, slots=True, kw_only=True)
class JobSnapshot:
    """A job and the state of its current attempt."""

    id: str
    job: Job
    user: str
    submitted_at: datetime
    state: JobState = JobState.PENDING
    message: str = ""  # why it is in this state
    attempt: int = 0
    tasks: tuple[TaskAttempt, ...] = ()  # the newest try of each task of the current attempt
    stop: StopRequest | None = None
    outcome: Outcome | None = None  # decided; other tasks may still be stopping
    exit: Exit | None = None  # of the job, once final
    user_retries: int = 0
    platform_retries: int = 0
    retry_at: datetime | None = None
    started_at: datetime | None = None  # when its first task started
    attempt_started_at: datetime | None = None
    finished_at: datetime | None = None
    version: int = 0

    def build_attempt_id(self, task: TaskAttempt) -> str:
        """Return the id that engines use for this try."""
        return str(AttemptId(self.id, self.attempt, task.role, task.index, task.number))


class ObservedState(StrEnum):
    ABSENT = "absent"  # never ran; starting it is safe
    QUEUED = "queued"  # the engine has accepted it, and it waits in a queue there
    STARTING = "starting"  # the engine prepares it: pulls its image, mounts a volume
    RUNNING = "running"
    HELD = "held"  # its command failed, and its other processes still run
    EXITED = "exited"
    LOST = "lost"  # it ran, it certainly does not run any more, and its end is unknown
    REFUSED = "refused"  # could not start, and a retry would not help
    UNREACHABLE = "unreachable"  # the engine cannot look: nothing is known, and nothing follows from it

    @property
    def alive(self) -> bool:
        """Whether it can be stopped."""
        return self in (ObservedState.QUEUED, ObservedState.STARTING, ObservedState.RUNNING, ObservedState.HELD)

    @property
    def final(self) -> bool:
        return self in (ObservedState.EXITED, ObservedState.LOST, ObservedState.REFUSED)


@dataclass(frozen=True, slots=True, kw_only=True)
class Debugger:
    """A debugger in a task that is waiting or attached. Reported by the task: do not trust it."""

    id: str  # within the task
    pid: int  # as the task numbers it
    file: str
    line: int
    function: str = ""
    why: str = ""  # start, breakpoint or crash
    port: int = 0
    local: bool = False  # the port is reachable only from the task's node
    token: str = ""  # token that it requires on its port; empty: none
    since: datetime
    until: datetime | None = None  # then it continues, or ends, by itself
    attached: bool = False  # a user is connected
    waits: bool = True  # the program is stopped: at a prompt, or until a user connects


@dataclass(frozen=True, slots=True, kw_only=True)
class Observation:
    """The state of one task attempt as the engine observed it."""

    attempt_id: str
    seen: ObservedState
    started_at: datetime | None = None
    finished_at: datetime | None = None
    elapsed: float | None = None  # seconds it has run, monotonic
    code: int | None = None  # with EXITED and HELD
    oom: bool = False
    # Why: with QUEUED, STARTING, LOST, REFUSED and UNREACHABLE, and with EXITED for what the engine did.
    message: str = ""
    since: datetime | None = None  # with QUEUED, STARTING and UNREACHABLE
    transient: bool = False  # with REFUSED: a retry may work
    cause: str = ""  # with EXITED, LOST and REFUSED: a value of exits.Cause
    artifacts: bool = False  # with EXITED: it may have left artifacts, which can be collected
    warning: str = ""  # it runs, but not exactly as requested; in the first observation
    debuggers: tuple[Debugger, ...] = ()  # with RUNNING and HELD
    used: Reading | None = None  # with EXITED: total usage, as far as known
    # What an engine that places tasks itself has chosen, from the first observation that knows it.
    node: str = ""  # name of the machine that runs it
    gpus: tuple[int, ...] = ()  # numbers of its devices there
    ports: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
