"""A plan under construction: the phases in `plan` and `hold_plan` change it."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta

from ..attempt import JobSnapshot, Observation, TaskAttempt
from ..exits.exit import DISK_STOP_CAUSES, Cause, Exit, ExitKind, build_time_limit_exit, classify_exit
from ..exits.table import add_cause, find_spec
from ..holds import compute_warning_time
from ..messages import join_messages, msg
from ..records import JobAttempt, NewEvent
from ..scheduling.placement import format_bytes
from ..states import StateChange, TaskState, apply_state_change
from .steps import JobPolicy, Plan, RemoveStep, StartStep, Step, StopStep
from .task_requests import build_task_attempts

NEVER_STARTED_PREFIX = msg("Never started. ")  # prefix of the message of a task that was stopped before it ran
_END_STATES = {
    ExitKind.SUCCEEDED: TaskState.SUCCEEDED,
    ExitKind.USER_ERROR: TaskState.FAILED,
    ExitKind.OUT_OF_MEMORY: TaskState.FAILED,
    ExitKind.TIME_LIMIT: TaskState.FAILED,
    ExitKind.REFUSED: TaskState.FAILED,
    ExitKind.PLATFORM: TaskState.FAILED,
    ExitKind.CANCELLED: TaskState.STOPPED,
    ExitKind.ATTEMPT_OVER: TaskState.STOPPED,
}


class PlanBuilder:
    def __init__(self, snapshot: JobSnapshot, now: datetime, policy: JobPolicy, chance: float) -> None:
        self.before = snapshot
        self.job = snapshot.job
        self.after = snapshot
        self.now = now
        self.policy = policy
        self.chance = chance
        self.tasks: list[TaskAttempt] = list(snapshot.tasks or build_task_attempts(snapshot.job))
        self.changed: dict[tuple[str, int, int], TaskAttempt] = {}
        self.starts: dict[str, StartStep] = {}
        self.steps: list[Step] = []
        self.events: list[NewEvent] = []
        self.ended: JobAttempt | None = None
        self.held_now = 0  # by this plan
        self.report_at: datetime | None = None  # when a change is reported that was not yet

    def finish_task(self, i: int, task: TaskAttempt, reason: Exit, at: datetime | None = None) -> None:
        state = _END_STATES[reason.kind]
        started = task.started_at
        at = max(at or self.now, started) if started else at or self.now
        task = self.update_task(i, replace(task, state=state, exit=reason, finished_at=at))
        if task.node is not None:
            self.steps.append(RemoveStep(self.after.build_attempt_id(task)))
        if len(self.tasks) > 1 or state is TaskState.FAILED:
            self.add_event(f"task-{state.lower()}", join_messages(": ", (task.task, reason.message)), task)

    def stop_tasks(self, reason: Exit) -> None:
        """Stop every task that has not ended, for `reason`."""
        for i, task in enumerate(self.tasks):
            unstarted = self.starts.pop(self.after.build_attempt_id(task), None)
            if task.state is TaskState.WAITING or unstarted:
                self.finish_task(
                    i, task, replace(reason, message=join_messages("", (NEVER_STARTED_PREFIX, reason.message)))
                )
            elif task.state.live and task.state is not TaskState.HELD and task.stop is None:
                self.update_task(i, replace(task, stop=reason))
                self.steps.append(StopStep(self.after.build_attempt_id(task), self.policy.grace))

    def classify_exit(self, task: TaskAttempt, observation: Observation) -> Exit:
        """Classify how its command ended, if no stop was requested."""
        code = observation.code if observation.code is not None else 0
        limit = format_bytes(self.job.get_role(task.role).resources.memory)
        if observation.cause == Cause.ENGINE_TIME_LIMIT:
            return build_time_limit_exit(observation.message, code)
        full = observation.message if observation.cause in DISK_STOP_CAUSES else ""
        reason = classify_exit(code, oom=observation.oom, memory_limit=limit, scratch_full=full)
        if reason.kind is not ExitKind.USER_ERROR:
            return reason
        reason = add_cause(reason, str(observation.cause))
        return replace(reason, behaviour=find_spec(reason).behaviour) if self.job.dialect.is_openpai else reason

    def end_job(self, change: StateChange, kind: str, text: str, reason: Exit, actor: str = "holdfast") -> None:
        self.after = replace(self.after, exit=reason, finished_at=self.now, retry_at=None)
        self.change_state(change, kind, text, actor)

    def has_working_tasks(self) -> bool:
        """Whether any task is live and not on hold."""
        return any(task.state.live and task.state is not TaskState.HELD for task in self.tasks)

    def find_exit_code(self) -> int | None:
        return next((task.exit.code for task in self.tasks if task.exit and task.exit.code is not None), None)

    def update_task(self, i: int, task: TaskAttempt) -> TaskAttempt:
        self.tasks[i] = task
        self.changed[task.role, task.index, task.number] = task
        return task

    def add_start_step(self, attempt_id: str, task: TaskAttempt) -> None:
        self.starts[attempt_id] = StartStep(attempt_id, task)

    def change_state(self, change: StateChange, kind: str, text: str, actor: str = "holdfast") -> None:
        self.after = replace(self.after, state=apply_state_change(self.after.state, change), message=text)
        event = NewEvent(
            kind=kind, message=text, at=self.now, actor=actor, attempt=self.after.attempt, state=self.after.state
        )
        self.events.append(event)

    def add_event(self, kind: str, text: str, task: TaskAttempt | None = None, actor: str = "holdfast") -> None:
        name, attempt = task.task if task else None, self.after.attempt
        self.events.append(NewEvent(kind=kind, message=text, at=self.now, actor=actor, task=name, attempt=attempt))

    def build_plan(self, elapsed: timedelta | None) -> Plan:
        self.after = replace(self.after, tasks=tuple(self.tasks))
        return Plan(
            after=self.after,
            tasks=tuple(self.changed.values()),
            steps=(*self.starts.values(), *self.steps),
            events=tuple(self.events),
            ended=self.ended,
            wake_in=None if self.after.state.final else self._compute_wake_delay(elapsed),
        )

    def _compute_wake_delay(self, elapsed: timedelta | None) -> timedelta | None:
        waits = [task.retry_at - self.now for task in self.tasks if task.retry_at]
        held = [task.held for task in self.tasks if task.state is TaskState.HELD and task.stop is None]
        waits += [hold.until - self.now for hold in held if hold]
        warned = [compute_warning_time(hold.since, hold.until) for hold in held if hold and not hold.warned]
        waits += [at - self.now for at in warned if at is not None]
        if self.report_at:
            waits.append(self.report_at - self.now)
        if self.after.retry_at:
            waits.append(self.after.retry_at - self.now)
        limited = self.after.attempt_started_at and not self.after.outcome and self.has_working_tasks()
        if self.policy.time_limit is not None and limited:
            waits.append(self.policy.time_limit - (elapsed or timedelta()))
        return max(min(waits), timedelta()) if waits else None
