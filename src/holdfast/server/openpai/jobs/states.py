"""States of jobs and tasks in OpenPAI: our state -> its controller's state -> the state that users see."""

from __future__ import annotations

from collections.abc import Mapping

from holdfast.core.attempt import TaskAttempt
from holdfast.core.exits.exit import Exit, ExitKind
from holdfast.core.exits.table import find_spec
from holdfast.core.records import JobSummary
from holdfast.core.states import JobState, TaskState

STOPPED_EXIT_CODE = -210  # a user stopped it
ATTEMPT_ENDED_EXIT_CODE = -220  # other tasks ended the attempt
_STOP_CODES = frozenset({STOPPED_EXIT_CODE, ATTEMPT_ENDED_EXIT_CODE})
_LEGACY_STOP_CODES = frozenset({-7351, -7400})  # of the first servers

_SHOWN_STATES = {
    "AttemptCreationPending": "WAITING",
    "AttemptCreationRequested": "WAITING",
    "AttemptPreparing": "WAITING",
    "AttemptRunning": "RUNNING",
    # names of the first servers
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
_STOPPING_STATES = frozenset(
    {"AttemptDeletionPending", "AttemptDeletionRequested", "AttemptDeleting", "AttemptCompleted"}
)
_STOP_CODES_BY_STATE: Mapping[str, frozenset[int]] = {
    "Completed": _STOP_CODES,
    "FRAMEWORK_COMPLETED": _LEGACY_STOP_CODES,
    "TASK_COMPLETED": _LEGACY_STOP_CODES,
}


def get_shown_state(sub_state: str, code: int | None) -> str:
    """Return the user-visible state for a controller's state and the exit code so far."""
    if sub_state in _STOPPING_STATES:
        return "STOPPING" if code in _STOP_CODES else "RUNNING"
    if sub_state in _STOP_CODES_BY_STATE:
        return _get_end_state(code, _STOP_CODES_BY_STATE[sub_state])
    return _SHOWN_STATES.get(sub_state, "UNKNOWN")


def get_attempt_state(sub_state: str, code: int | None) -> str:
    """Return the state of one attempt: it can have ended while its job will be retried."""
    return get_shown_state("Completed" if sub_state == "AttemptCompleted" else sub_state, code)


def _get_end_state(code: int | None, stops: frozenset[int]) -> str:
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
_STOPPING_SUB_STATES = {JobState.PENDING: "AttemptDeletionPending", JobState.PREPARING: "AttemptDeletionRequested"}


def get_job_sub_state(summary: JobSummary) -> str:
    if summary.stopping:
        return _STOPPING_SUB_STATES.get(summary.state, "AttemptDeleting")
    if summary.state is JobState.PENDING and summary.retry_at is not None:
        return "AttemptCompleted"
    return _JOB_SUB_STATES.get(summary.state, "Unknown")


def get_job_state(summary: JobSummary) -> str:
    return get_shown_state(
        get_job_sub_state(summary), STOPPED_EXIT_CODE if summary.stopping else get_job_exit_code(summary)
    )


def get_job_exit_code(summary: JobSummary) -> int | None:
    """Return the exit code for OpenPAI's clients; the program's own code can differ."""
    if not summary.state.final:
        return None
    if summary.exit_kind is None:
        return {JobState.SUCCEEDED: 0, JobState.CANCELLED: STOPPED_EXIT_CODE}.get(summary.state, -8000)
    known = Exit(kind=ExitKind(summary.exit_kind), message="", code=summary.exit_code, cause=summary.exit_cause)
    return find_spec(known).code


def get_attempt_end_state(exit: Exit) -> str:
    return get_attempt_state("AttemptCompleted", find_spec(exit).code)


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


def get_task_sub_state(task: TaskAttempt) -> str:
    """Return the sub-state of a task by its newest try."""
    if task.state.live and task.stop is not None:
        return "AttemptDeletionRequested" if task.state is TaskState.PREPARING else "AttemptDeleting"
    if task.state is TaskState.WAITING and task.retry_at is not None:
        return "AttemptCompleted"  # between two tries
    return _TASK_SUB_STATES[task.state]


def get_task_exit_code(task: TaskAttempt) -> int | None:
    """Return its exit code, or the one it will have once stopped."""
    reason = task.exit or (task.stop if task.state.live else None)
    return find_spec(reason).code if reason is not None else None


def get_task_state(task: TaskAttempt) -> str:
    return get_shown_state(get_task_sub_state(task), get_task_exit_code(task))


def get_try_state(task: TaskAttempt) -> str:
    """Return the state of one try, without regard to later ones."""
    if task.state is TaskState.WAITING:
        return "WAITING"
    return get_attempt_state(get_task_sub_state(task), get_task_exit_code(task))
