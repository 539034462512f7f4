"""When an attempt is over: completion rules and task states -> Outcome or None."""

from __future__ import annotations

from collections.abc import Sequence

from .attempt import Outcome, Result, TaskAttempt
from .exits.exit import Exit, ExitKind
from .job import Job
from .messages import join_messages, msg
from .states import TaskState


def decide_outcome(job: Job, tasks: Sequence[TaskAttempt]) -> Outcome | None:
    """Failure is looked at first: a role with enough failed tasks fails the attempt even as another one succeeds.

    `tasks` holds the newest try of each task, and one that will be retried must not be in an ended state.
    """
    for role in job.roles:
        failed = _ended(tasks, role.name, TaskState.FAILED)
        needed = role.completion.min_failed
        if _reached(len(failed), needed):
            assert needed is not None
            return _failed(failed, needed)
    for role in job.roles:
        succeeded = _ended(tasks, role.name, TaskState.SUCCEEDED)
        needed = role.completion.min_succeeded
        if _reached(len(succeeded), needed):
            text = msg(
                "{succeeded} succeeded of role {name} are enough ({needed} needed)",
                succeeded=len(succeeded),
                name=role.name,
                needed=needed,
            )
            return _succeeded(_told(text, tasks), succeeded[-1], len(succeeded), needed)
    if all(task.state.ended for task in tasks):
        return _succeeded(_told(msg("All {tasks} tasks ended", tasks=len(tasks)), tasks), None, len(tasks), None)
    return None


def _told(text: str, tasks: Sequence[TaskAttempt]) -> str:
    """Of a single task there is nothing more to say."""
    return text if len(tasks) > 1 else "Succeeded"


def _reached(count: int, needed: int | None) -> bool:
    """A rule for fewer than one task is switched off, as None is."""
    return needed is not None and count >= needed >= 1


def _ended(tasks: Sequence[TaskAttempt], role: str, state: TaskState) -> list[TaskAttempt]:
    found = [task for task in tasks if task.role == role and task.state is state]
    return sorted(found, key=lambda task: (task.finished_at is None, task.finished_at, task.index))


def _failed(failed: list[TaskAttempt], needed: int) -> Outcome:
    cause = failed[0]
    assert cause.exit is not None
    text: str = join_messages(": ", (cause.task, cause.exit.message))
    if needed > 1:
        text += msg(
            " ({failed} failed of role {role}, {needed} are too many)",
            failed=len(failed),
            role=cause.role,
            needed=needed,
        )
    return Outcome(
        result=Result.FAILED,
        message=text,
        exit=cause.exit,
        role=cause.role,
        index=cause.index,
        reached=len(failed),
        needed=needed,
    )


def _succeeded(text: str, trigger: TaskAttempt | None, reached: int, needed: int | None) -> Outcome:
    return Outcome(
        result=Result.SUCCEEDED,
        message=text,
        exit=Exit(kind=ExitKind.SUCCEEDED, code=0, message="Succeeded"),
        role=trigger.role if trigger else None,
        index=trigger.index if trigger else None,
        reached=reached,
        needed=needed,
    )
