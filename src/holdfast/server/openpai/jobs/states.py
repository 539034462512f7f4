"""How far a job or task is, in OpenPAI's words: ours -> its controller's state -> the state people see."""

from __future__ import annotations

from collections.abc import Mapping

from holdfast.core.attempt import TaskAttempt
from holdfast.core.exits.exit import Exit, ExitKind
from holdfast.core.exits.table import spec_of
from holdfast.core.records import JobSummary
from holdfast.core.states import JobState, TaskState

STOP_CODE = -210  # somebody asked for it
ATTEMPT_OVER_CODE = -220  # other tasks decided
_STOP_CODES = frozenset({STOP_CODE, ATTEMPT_OVER_CODE})
_FIRST_STOP_CODES = frozenset({-7351, -7400})  # of the first servers

_PLAIN = {
    "AttemptCreationPending": "WAITING",
    "AttemptCreationRequested": "WAITING",
    "AttemptPreparing": "WAITING",
    "AttemptRunning": "RUNNING",
    # the words of the first servers
    "FRAMEWORK_WAITING": "WAITING",
    "APPLICATION_CREATED": "WAITING",
    "APPLICATION_LAUNCHED": "WAITING",
    "APPLICATION_WAITING": "WAITING",
    "APPLICATION_RETRIEVING_DIAGNOSTICS": "WAITING",
    "APPLICATION_COMPLETED": "WAITING",
    "APPLICATION_RUNNING": "RUNNING",
    "TASK_WAITING": "WAITING",
    "CONTAINER_REQUESTED": "WAITING",
    "CONTAINER_ALLOCATED": "WAITING",
    "CONTAINER_COMPLETED": "WAITING",
    "CONTAINER_RUNNING": "RUNNING",
}
_ENDING = frozenset({"AttemptDeletionPending", "AttemptDeletionRequested", "AttemptDeleting", "AttemptCompleted"})
_ENDED: Mapping[str, frozenset[int]] = {
    "Completed": _STOP_CODES,
    "FRAMEWORK_COMPLETED": _FIRST_STOP_CODES,
    "TASK_COMPLETED": _FIRST_STOP_CODES,
}


def state_of(sub_state: str, code: int | None) -> str:
    """What people see, of a controller's state and the exit code known so far."""
    if sub_state in _ENDING:
        return "STOPPING" if code in _STOP_CODES else "RUNNING"
    if sub_state in _ENDED:
        return _end_state(code, _ENDED[sub_state])
    return _PLAIN.get(sub_state, "UNKNOWN")


def attempt_state_of(sub_state: str, code: int | None) -> str:
    """The same for one attempt: it is over while its job may still be tried again."""
    return state_of("Completed" if sub_state == "AttemptCompleted" else sub_state, code)


def _end_state(code: int | None, stops: frozenset[int]) -> str:
    if code == 0:
        return "SUCCEEDED"
    return "STOPPED" if code in stops else "FAILED"


# -- jobs

_JOB_SUB_STATES = {
    JobState.PENDING: "AttemptCreationPending",
    JobState.PREPARING: "AttemptPreparing",
    JobState.RUNNING: "AttemptRunning",
    JobState.HELD: "AttemptRunning",
    JobState.SUCCEEDED: "Completed",
    JobState.FAILED: "Completed",
    JobState.CANCELLED: "Completed",
}
_STOPPING_SUB_STATES = {
    JobState.PENDING: "AttemptDeletionPending",
    JobState.PREPARING: "AttemptDeletionRequested",
}


def job_sub_state(summary: JobSummary) -> str:
    if summary.stopping:
        return _STOPPING_SUB_STATES.get(summary.state, "AttemptDeleting")
    if summary.state is JobState.PENDING and summary.retry_at is not None:
        return "AttemptCompleted"
    return _JOB_SUB_STATES.get(summary.state, "Unknown")


def job_state(summary: JobSummary) -> str:
    return state_of(job_sub_state(summary), STOP_CODE if summary.stopping else exit_code(summary))


def exit_code(summary: JobSummary) -> int | None:
    """The code OpenPAI's clients see; the program's own one may be another."""
    if not summary.state.final:
        return None
    if summary.exit_kind is None:
        return {JobState.SUCCEEDED: 0, JobState.CANCELLED: STOP_CODE}.get(summary.state, -8000)
    known = Exit(kind=ExitKind(summary.exit_kind), message="", code=summary.exit_code, cause=summary.exit_cause)
    return spec_of(known).code


def ended_state(exit: Exit) -> str:
    """Of an attempt that is over."""
    return attempt_state_of("AttemptCompleted", spec_of(exit).code)


# -- tasks

_TASK_SUB_STATES = {
    TaskState.WAITING: "AttemptCreationPending",
    TaskState.PREPARING: "AttemptPreparing",
    TaskState.RUNNING: "AttemptRunning",
    TaskState.HELD: "AttemptRunning",
    TaskState.SUCCEEDED: "Completed",
    TaskState.FAILED: "Completed",
    TaskState.STOPPED: "Completed",
}


def task_sub_state(task: TaskAttempt) -> str:
    """Of a task whose newest try this is."""
    if task.state.live and task.stop is not None:
        return "AttemptDeletionRequested" if task.state is TaskState.PREPARING else "AttemptDeleting"
    if task.state is TaskState.WAITING and task.retry_at is not None:
        return "AttemptCompleted"  # between two tries
    return _TASK_SUB_STATES[task.state]


def task_code(task: TaskAttempt) -> int | None:
    """The code it has, or will have once it has stopped."""
    reason = task.exit or (task.stop if task.state.live else None)
    return spec_of(reason).code if reason is not None else None


def task_state(task: TaskAttempt) -> str:
    return state_of(task_sub_state(task), task_code(task))


def try_state(task: TaskAttempt) -> str:
    """Of one try by itself, whatever comes after it."""
    if task.state is TaskState.WAITING:
        return "WAITING"
    return attempt_state_of(task_sub_state(task), task_code(task))
