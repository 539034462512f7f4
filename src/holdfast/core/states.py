"""States of jobs and tasks, and the table of allowed transitions."""

from __future__ import annotations

from enum import StrEnum


class JobState(StrEnum):
    PENDING = "Pending"  # waits for resources, for quota, or for its next attempt
    PREPARING = "Preparing"  # placed; its tasks are being started
    RUNNING = "Running"
    HELD = "Held"  # failed, and on hold
    SUCCEEDED = "Succeeded"
    FAILED = "Failed"
    CANCELLED = "Cancelled"
    UNKNOWN = "Unknown"  # the engine does not know; not final

    @property
    def final(self) -> bool:
        return self in FINAL_STATES


FINAL_STATES = frozenset({JobState.SUCCEEDED, JobState.FAILED, JobState.CANCELLED})


class TaskState(StrEnum):
    WAITING = "Waiting"
    PREPARING = "Preparing"
    RUNNING = "Running"
    HELD = "Held"
    SUCCEEDED = "Succeeded"
    FAILED = "Failed"
    STOPPED = "Stopped"  # stopped by Holdfast: cancelled, or its attempt had ended

    @property
    def live(self) -> bool:
        """Whether it may exist on a node."""
        return self in (TaskState.PREPARING, TaskState.RUNNING, TaskState.HELD)

    @property
    def ended(self) -> bool:
        return self in (TaskState.SUCCEEDED, TaskState.FAILED, TaskState.STOPPED)


class StateChange(StrEnum):
    """An event that changes the state of a job."""

    PLACE = "place"
    START = "start"
    HOLD = "hold"
    RESUME = "resume"
    RETRY = "retry"
    LOSE = "lose"
    SUCCEED = "succeed"
    FAIL = "fail"
    CANCEL = "cancel"


_S, _C = JobState, StateChange

JOB_STATE_TRANSITIONS: dict[tuple[JobState, StateChange], JobState] = {
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
    (_S.UNKNOWN, _C.HOLD): _S.HELD,
    (_S.UNKNOWN, _C.SUCCEED): _S.SUCCEEDED,
    (_S.UNKNOWN, _C.FAIL): _S.FAILED,
    (_S.UNKNOWN, _C.CANCEL): _S.CANCELLED,
}


def apply_state_change(state: JobState, change: StateChange) -> JobState:
    """Return the state after `change`; KeyError if the table does not allow it."""
    return JOB_STATE_TRANSITIONS[state, change]
