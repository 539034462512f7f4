"""Derives how a task ended from its runner's report, its heartbeat and Slurm's state. Pure.

The runner's report comes first. Slurm's state adds why: a time limit, preemption, a cancelled job, memory.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, datetime, timedelta
from enum import StrEnum

from holdfast.core.attempt import Observation, ObservedState
from holdfast.core.exits.exit import Cause
from holdfast.core.messages import msg

from .isolation.node_isolation import describe_node_refusal, is_setup_failure
from .reasons import describe_reason
from .usage import parse_usage

KILL_CODE, TERM_CODE = 137, 143
_SIGNAL_BASE = 128
# Of the shell, of our programs, and of a node that cannot create the output file: Slurm shows that as signal 53.
_NO_FOLDER_CODES = (2, 125, 126, 127, _SIGNAL_BASE + 53)


@dataclass(frozen=True, slots=True, kw_only=True)
class Allocation:
    """Where a task runs, as its node reported."""

    job: int  # number of the job, or of its first component
    step: str = ""  # of a task in a gang
    node: str = ""
    at: datetime  # when the claim was taken, by the clock of the shared folder
    uptime: float = 0.0  # seconds after boot, then
    gpus: tuple[int, ...] = ()
    ports: Mapping[str, tuple[int, ...]] = field(default_factory=dict)


class EndKind(StrEnum):
    EXITED = "exited"
    TIME_LIMIT = "time-limit"  # by Slurm
    DEADLINE = "deadline"  # of the job, which an admin has set in Slurm
    CANCELLED = "cancelled"  # not by the server
    PREEMPTED = "preempted"
    NODE_FAILED = "node-failed"
    LOST = "lost"  # Slurm does not know the job, and its heartbeat has stopped
    GANG_INCOMPLETE = "gang-incomplete"  # it was not submitted: other tasks of its gang were not passed in time
    NUMBER_REUSED = "number-reused"  # Slurm ended it, since another job had the same number
    NEVER_STARTS = "never-starts"  # Slurm said for some time that it can never start it
    NODE_REFUSED = "node-refused"  # the node cannot isolate it as required, or lacks a volume
    NOT_RUN = "not-run"  # the job ended before the task took its claim


_KINDS = {
    "TIMEOUT": EndKind.TIME_LIMIT,
    "DEADLINE": EndKind.DEADLINE,
    "CANCELLED": EndKind.CANCELLED,
    "REVOKED": EndKind.CANCELLED,
    "PREEMPTED": EndKind.PREEMPTED,
    "NODE_FAIL": EndKind.NODE_FAILED,
    "BOOT_FAIL": EndKind.NODE_FAILED,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class EndRecord:
    """How a task ended, as the server records it."""

    kind: EndKind
    code: int = 0
    oom: bool = False
    started_ms: int = 0  # unix time; 0: it did not start
    elapsed: float = 0.0
    node: str = ""
    gpus: tuple[int, ...] = ()
    ports: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    reason: str = ""  # Slurm's
    usage: str = ""  # as its node has written it last

    def to_json(self) -> str:
        return json.dumps(asdict(self), separators=(",", ":"))


def parse_end_record(data: bytes) -> EndRecord | None:
    try:
        given = json.loads(data)
        ports = {str(label): tuple(map(int, numbers)) for label, numbers in given["ports"].items()}
        return EndRecord(
            **{**given, "kind": EndKind(given["kind"]), "gpus": tuple(map(int, given["gpus"])), "ports": ports}
        )
    except (ValueError, TypeError, KeyError, AttributeError):
        return None


@dataclass(frozen=True, slots=True, kw_only=True)
class EndEvidence:
    """What is known about a task whose end is not recorded yet, after a successful look at Slurm's queue."""

    allocation: Allocation | None
    code: int | None  # by its runner
    step_code: int | None = None  # of its step in a gang
    state: str = ""  # of its job; empty: Slurm does not know it
    reason: str = ""
    is_final: bool = False
    exit: tuple[int, int] | None = None  # code and signal of its job, by Slurm
    stop_code: int | None = None  # the server has signalled it: its exit code, unless the task reports its own
    silent: bool = False  # no heartbeat for several intervals
    oom: bool = False  # a process was killed for its memory, by its cgroup or by Slurm
    overdue: bool = False  # its report should be visible by now
    is_recent: bool = False  # its end was reported less than a minute ago: Slurm knows the job unless it crashed
    gang_incomplete: bool = False  # it gave up to wait for its gang, and ran nothing
    reused: bool = False  # Slurm gave the number of its job to another one, too
    refusal: str = ""  # why its node did not run it

    @property
    def needs_exit(self) -> bool:
        """Whether it matters which exit Slurm recorded for the job."""
        return self.is_final and (self.code in (None, KILL_CODE, TERM_CODE) or self.reused)

    @property
    def stopped(self) -> bool:
        return self.stop_code is not None


def decide_end(seen: EndEvidence) -> EndRecord | None:
    """Return how it ended; None if it has not, or that is not known yet."""
    if seen.code is not None:
        return _decide_reported(seen, seen.code)
    if seen.gang_incomplete and not seen.stopped:
        return EndRecord(kind=EndKind.GANG_INCOMPLETE)
    if seen.refusal and not seen.stopped:
        return EndRecord(kind=EndKind.NODE_REFUSED, reason=seen.refusal)
    if seen.step_code is not None and not seen.is_final:  # the rest of its gang runs on
        return _decide_unreported(seen, seen.step_code) if seen.overdue or seen.stopped else None
    if not seen.state:
        return EndRecord(kind=EndKind.LOST) if seen.allocation is not None and seen.silent else None
    if not seen.is_final:
        return None
    if seen.allocation is None:
        return _decide_not_run(seen)
    if seen.state == "NODE_FAIL" and not seen.silent:  # its processes may still run there
        return None
    if not (seen.overdue or seen.stopped):
        return None
    return _decide_unreported(seen, _get_code(seen.exit))


def _decide_reported(seen: EndEvidence, code: int) -> EndRecord | None:
    if seen.stop_code == KILL_CODE and code == TERM_CODE:
        # A job that starts while it is cancelled gets SIGTERM first, although it is to be killed.
        return EndRecord(kind=EndKind.EXITED, code=KILL_CODE)
    if code == 0 or seen.stopped:
        return EndRecord(kind=EndKind.EXITED, code=code)
    settled = not seen.state or seen.is_final or seen.step_code is not None
    if not settled:  # Slurm knows why only once the job has ended
        return None
    if not seen.state and seen.is_recent and code in (KILL_CODE, TERM_CODE):
        # slurmctld has crashed and forgotten the job, so its node killed the task.
        return EndRecord(kind=EndKind.LOST, code=code)
    if seen.reused and seen.is_final:  # the job's state may be that of the other one
        is_own = code <= _SIGNAL_BASE or _get_code(seen.exit) == code
        return EndRecord(kind=EndKind.EXITED if is_own else EndKind.NUMBER_REUSED, code=code, oom=seen.oom)
    kind = _KINDS.get(seen.state, EndKind.EXITED)
    if kind is EndKind.NODE_FAILED and code <= _SIGNAL_BASE:  # it ended by itself while slurmctld was away
        kind = EndKind.EXITED
    if kind is EndKind.EXITED and _was_killed_otherwise(seen, code):
        kind = EndKind.NUMBER_REUSED
    return EndRecord(kind=kind, code=code, oom=seen.oom, reason=seen.reason)


def _was_killed_otherwise(seen: EndEvidence, code: int) -> bool:
    """Return whether Slurm recorded another exit of its job than the signal that ended the task. After a crash of
    slurmctld, an `srun` that waits for the same number ends the job with its own exit code."""
    if seen.exit is None or seen.oom or seen.step_code is not None or code not in (KILL_CODE, TERM_CODE):
        return False
    return _get_code(seen.exit) != code


def _decide_unreported(seen: EndEvidence, code: int) -> EndRecord:
    """Its runner was killed before it could report."""
    if seen.stop_code is not None:
        return EndRecord(kind=EndKind.EXITED, code=KILL_CODE if seen.stop_code == KILL_CODE else code or TERM_CODE)
    if seen.oom:
        return EndRecord(kind=EndKind.EXITED, code=code or KILL_CODE, oom=True)
    if seen.reused and seen.is_final:
        return EndRecord(kind=EndKind.NUMBER_REUSED)
    kind = _KINDS.get(seen.state)
    if kind is None:  # it was killed from outside, or could not write
        kind = EndKind.EXITED if code else EndKind.LOST
    return EndRecord(kind=kind, code=code, reason=seen.reason)


def _decide_not_run(seen: EndEvidence) -> EndRecord | None:
    if seen.stop_code is not None:
        return EndRecord(kind=EndKind.EXITED, code=seen.stop_code)
    if seen.reused:  # it is submitted again, unless its claim becomes visible
        return None
    kind = _KINDS.get(seen.state)
    if kind is not None:
        return EndRecord(kind=kind, reason=seen.reason)
    if not seen.overdue:  # its claim may not be visible yet
        return None
    return EndRecord(kind=EndKind.NOT_RUN, code=_get_code(seen.exit), reason=seen.reason)


def _get_code(exit: tuple[int, int] | None) -> int:
    if exit is None:
        return 0
    code, signal = exit
    return _SIGNAL_BASE + signal if signal and not code and signal < 65 else code % 256


def add_run(record: EndRecord, allocation: Allocation | None, ended: float | None) -> EndRecord:
    """Add where and how long it ran. `ended`: seconds after the node's boot."""
    if allocation is None:
        return record
    return replace(
        record,
        started_ms=round(allocation.at.timestamp() * 1000),
        elapsed=round(max(0.0, (ended if ended is not None else allocation.uptime) - allocation.uptime), 2),
        node=allocation.node,
        gpus=allocation.gpus,
        ports=allocation.ports,
    )


# --- observations -----------------------------------------------------------------------------------------------------


def build_end_observation(attempt_id: str, record: EndRecord) -> Observation:
    started = datetime.fromtimestamp(record.started_ms / 1000, UTC) if record.started_ms else None
    seen = Observation(
        attempt_id=attempt_id,
        seen=ObservedState.LOST,
        started_at=started,
        finished_at=started + timedelta(seconds=record.elapsed) if started else None,
        elapsed=record.elapsed if started else None,
        node=record.node,
        gpus=record.gpus,
        ports=record.ports,
        cause=Cause.LOST,
        used=parse_usage(record.usage),
    )
    match record.kind:
        case EndKind.EXITED:
            return replace(seen, seen=ObservedState.EXITED, code=record.code, oom=record.oom, cause="")
        case EndKind.TIME_LIMIT:
            text = msg("Slurm stopped the task at the time limit of its job or partition")
            code = record.code or TERM_CODE
            return replace(seen, seen=ObservedState.EXITED, code=code, message=text, cause=Cause.ENGINE_TIME_LIMIT)
        case EndKind.DEADLINE:
            return _build_deadline_observation(seen, record)
        case EndKind.CANCELLED:
            return replace(seen, message=msg("The job was cancelled in Slurm, not by Holdfast"))
        case EndKind.PREEMPTED:
            return replace(seen, message=msg("Slurm preempted the job for another one"), cause=Cause.PREEMPTED)
        case EndKind.NODE_FAILED:
            return replace(seen, message=msg("The node of the task failed"), cause=Cause.NODE_FAILED)
        case EndKind.NUMBER_REUSED:
            return replace(
                seen, message=msg("Slurm ended the job: it gave the same number to another one after a crash")
            )
        case EndKind.NEVER_STARTS:
            text = describe_reason(record.reason)
            return replace(seen, seen=ObservedState.REFUSED, message=text, cause=Cause.NOT_ALLOWED)
        case EndKind.NODE_REFUSED:
            text = describe_node_refusal(record.reason, record.node)
            seen = replace(seen, seen=ObservedState.REFUSED, message=text)
            if is_setup_failure(record.reason):
                return replace(seen, cause=Cause.START_FAILED, transient=True)
            return replace(seen, cause=Cause.NOT_ALLOWED)
        case EndKind.NOT_RUN | EndKind.GANG_INCOMPLETE:
            text = _describe_failed_start(record)
            refused = ObservedState.REFUSED
            return replace(seen, seen=refused, message=text, cause=Cause.START_FAILED, transient=True)
    return replace(seen, message=msg("Slurm does not know the job any more, and the task sends no heartbeat"))


def _build_deadline_observation(seen: Observation, record: EndRecord) -> Observation:
    """A deadline ends jobs that run, and jobs that can no longer end in time."""
    if seen.started_at is None:
        text = msg("The deadline of the job in Slurm passed before it could start. Ask an admin of the cluster.")
        return replace(seen, seen=ObservedState.REFUSED, message=text, cause=Cause.NOT_ALLOWED)
    text = msg("Slurm stopped the task at the deadline of its job")
    code = record.code or TERM_CODE
    return replace(seen, seen=ObservedState.EXITED, code=code, message=text, cause=Cause.ENGINE_TIME_LIMIT)


def _describe_failed_start(record: EndRecord) -> str:
    if record.kind is EndKind.GANG_INCOMPLETE:
        return msg("The other tasks of its gang did not start in time")
    if record.code in _NO_FOLDER_CODES:
        return msg("The node cannot use the task's folder. Check that all nodes share it at the same path.")
    return msg("Slurm could not start the task ({reason})", reason=record.reason or str(record.code))
