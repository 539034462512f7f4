"""Completion rules: decides from task states whether an attempt has ended."""

from __future__ import annotations

from collections.abc import Sequence

from .attempt import Outcome, OutcomeResult, TaskAttempt
from .exits.exit import Exit, ExitKind
from .job import Job
from .messages import join_messages, msg
from .states import TaskState


def decide_outcome(job: Job, tasks: Sequence[TaskAttempt]) -> Outcome | None:
    """Return the outcome, or None while undecided. Failure is checked first: a role with enough failed tasks fails the
    attempt even if another one succeeds.

    `tasks` contains the newest try of each task; one that will be retried must not be in an ended state.
    """
    for role in job.roles:
        if role.completion.wait_for_all and not all(task.state.ended for task in tasks if task.role == role.name):
            continue
        failed = _list_ended_tasks(tasks, role.name, TaskState.FAILED)
        needed = role.completion.min_failed
        if _is_threshold_reached(len(failed), needed):
            assert needed is not None
            return _build_failed_outcome(failed, needed)
    for role in job.roles:
        succeeded = _list_ended_tasks(tasks, role.name, TaskState.SUCCEEDED)
        needed = role.completion.min_succeeded
        if _is_threshold_reached(len(succeeded), needed):
            text = msg(
                "Succeeded tasks of role {name}: {succeeded} ({needed} required)",
                succeeded=len(succeeded),
                name=role.name,
                needed=needed,
            )
            return _build_success_outcome(_shorten_success_message(text, tasks), succeeded[-1], len(succeeded), needed)
    if all(task.state.ended for task in tasks):
        return _build_success_outcome(
            _shorten_success_message(msg("All tasks ended ({tasks})", tasks=len(tasks)), tasks), None, len(tasks), None
        )
    return None


def _shorten_success_message(text: str, tasks: Sequence[TaskAttempt]) -> str:
    """Shorten the message for a job with a single task."""
    return text if len(tasks) > 1 else "Succeeded"


def _is_threshold_reached(count: int, needed: int | None) -> bool:
    """Whether a completion rule is reached; a rule below one is disabled, like None."""
    return needed is not None and count >= needed >= 1


def _list_ended_tasks(tasks: Sequence[TaskAttempt], role: str, state: TaskState) -> list[TaskAttempt]:
    found = [task for task in tasks if task.role == role and task.state is state]
    return sorted(found, key=lambda task: (task.finished_at is None, task.finished_at, task.index))


def _build_failed_outcome(failed: list[TaskAttempt], needed: int) -> Outcome:
    cause = failed[0]
    assert cause.exit is not None
    text: str = join_messages(": ", (cause.task, cause.exit.message))
    if needed > 1:
        text += msg(
            " (failed tasks of role {role}: {failed}; the job fails at {needed})",
            failed=len(failed),
            role=cause.role,
            needed=needed,
        )
    return Outcome(
        result=OutcomeResult.FAILED,
        message=text,
        exit=cause.exit,
        role=cause.role,
        index=cause.index,
        reached=len(failed),
        needed=needed,
    )


def _build_success_outcome(text: str, trigger: TaskAttempt | None, reached: int, needed: int | None) -> Outcome:
    return Outcome(
        result=OutcomeResult.SUCCEEDED,
        message=text,
        exit=Exit(kind=ExitKind.SUCCEEDED, code=0, message="Succeeded"),
        role=trigger.role if trigger else None,
        index=trigger.index if trigger else None,
        reached=reached,
        needed=needed,
    )
