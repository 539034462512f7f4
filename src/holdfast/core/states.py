"""States of jobs and tasks, and the one table of allowed changes."""

from __future__ import annotations

from enum import StrEnum


class JobState(StrEnum):
    PENDING = "Pending"  # waits for room, for quota, or for its next attempt
    PREPARING = "Preparing"  # placed; its tasks are being started
    RUNNING = "Running"
    HELD = "Held"  # failed, and kept for debugging
    SUCCEEDED = "Succeeded"
    FAILED = "Failed"
    CANCELLED = "Cancelled"
    UNKNOWN = "Unknown"  # the engine cannot tell; not final

    @property
    def final(self) -> bool:
        return self in FINAL


FINAL = frozenset({JobState.SUCCEEDED, JobState.FAILED, JobState.CANCELLED})


class TaskState(StrEnum):
    WAITING = "Waiting"
    PREPARING = "Preparing"
    RUNNING = "Running"
    HELD = "Held"
    SUCCEEDED = "Succeeded"
    FAILED = "Failed"
    STOPPED = "Stopped"  # ended by us: cancelled, or its attempt was over

    @property
    def live(self) -> bool:
        """Something of it may exist on a machine."""
        return self in (TaskState.PREPARING, TaskState.RUNNING, TaskState.HELD)

    @property
    def ended(self) -> bool:
        return self in (TaskState.SUCCEEDED, TaskState.FAILED, TaskState.STOPPED)


class Change(StrEnum):
    """What can happen to a job."""

    PLACE = "place"
    START = "start"
    HOLD = "hold"
    RESUME = "resume"
    RETRY = "retry"
    LOSE = "lose"
    SUCCEED = "succeed"
    FAIL = "fail"
    CANCEL = "cancel"


_S, _C = JobState, Change

TRANSITIONS: dict[tuple[JobState, Change], JobState] = {
    (_S.PENDING, _C.PLACE): _S.PREPARING,
    (_S.PENDING, _C.FAIL): _S.FAILED,
    (_S.PENDING, _C.CANCEL): _S.CANCELLED,
    (_S.PREPARING, _C.START): _S.RUNNING,
    (_S.PREPARING, _C.RETRY): _S.PENDING,
    (_S.PREPARING, _C.SUCCEED): _S.SUCCEEDED,
    (_S.PREPARING, _C.FAIL): _S.FAILED,
    (_S.PREPARING, _C.CANCEL): _S.CANCELLED,
    (_S.RUNNING, _C.RETRY): _S.PENDING,
    (_S.RUNNING, _C.HOLD): _S.HELD,
    (_S.RUNNING, _C.LOSE): _S.UNKNOWN,
    (_S.RUNNING, _C.SUCCEED): _S.SUCCEEDED,
    (_S.RUNNING, _C.FAIL): _S.FAILED,
    (_S.RUNNING, _C.CANCEL): _S.CANCELLED,
    (_S.HELD, _C.RESUME): _S.RUNNING,
    (_S.HELD, _C.SUCCEED): _S.SUCCEEDED,  # one task failed and was held, and others were enough
    (_S.HELD, _C.FAIL): _S.FAILED,
    (_S.HELD, _C.CANCEL): _S.CANCELLED,
    (_S.UNKNOWN, _C.START): _S.RUNNING,
    (_S.UNKNOWN, _C.RETRY): _S.PENDING,
    (_S.UNKNOWN, _C.SUCCEED): _S.SUCCEEDED,
    (_S.UNKNOWN, _C.FAIL): _S.FAILED,
    (_S.UNKNOWN, _C.CANCEL): _S.CANCELLED,
}


def transition(state: JobState, change: Change) -> JobState:
    """The state after `change`; KeyError when the table does not allow it."""
    return TRANSITIONS[state, change]
