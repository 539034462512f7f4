"""Decides a job's next state and steps from its state, what the engine observed, and the time.

Pure: the same inputs give the same plan. Steps can be derived again from the saved state, so a server that dies between
saving a plan and performing it loses nothing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta

from ..attempt import JobSnapshot, Observation, ObservedState, Outcome, OutcomeResult, TaskAttempt
from ..completion import decide_outcome
from ..exits.exit import Cause, Exit, ExitKind, RetryBehaviour, build_platform_exit, build_refused_exit
from ..holds import HoldRequest
from ..messages import join_messages, msg
from ..records import JobAttempt
from ..retry import NoRetry, decide_retry
from ..scheduling.placement import Assignment, Placement, PlacementRefusal
from ..states import JobState, StateChange, TaskState
from .builder import PlanBuilder
from .durations import format_duration
from .hold_plan import (
    apply_held_observation,
    apply_hold_requests,
    build_hold_outcome,
    end_expired_holds,
    hold_or_stop_failed_task,
    release_task,
    update_held_state,
    warn_before_expiry,
)
from .start_progress import StartProgress, count_messages, report_start_progress
from .steps import JobPolicy, Plan, StopStep
from .task_requests import build_task_attempts, is_retry_due


def plan_job(
    snapshot: JobSnapshot,
    seen: Mapping[str, Observation],
    now: datetime,
    policy: JobPolicy,
    *,
    decision: Placement | PlacementRefusal | None = None,
    requests: Sequence[HoldRequest] = (),
    elapsed: timedelta | None = None,
    chance: float = 0.0,
    progress: StartProgress | None = None,
) -> Plan:
    """`elapsed`: run time of the attempt, monotonic. `chance` in [0, 1) is for retry delays. `requests`: of users.
    `progress`: of all tasks that wait in the engine; None: as in `seen`."""
    if snapshot.state.final:
        return Plan(after=snapshot)
    work = PlanBuilder(snapshot, now, policy, chance)
    _start_next_attempt(work)
    _apply_observations(work, seen)
    report_start_progress(work, progress or StartProgress(counts=count_messages(seen.values())))
    _apply_placement(work, decision)
    apply_hold_requests(work, requests)
    _apply_stop(work)
    end_expired_holds(work)
    warn_before_expiry(work)
    _enforce_time_limit(work, elapsed)
    _retry_tasks(work)
    _apply_outcome(work)
    _end_job_if_done(work)
    update_held_state(work)
    return work.build_plan(elapsed)


def _start_next_attempt(work: PlanBuilder) -> None:
    if work.after.retry_at is None or work.after.stop or not is_retry_due(work.after.retry_at, work.now):
        return
    work.tasks = list(build_task_attempts(work.job))
    work.after = replace(
        work.after,
        attempt=work.after.attempt + 1,
        retry_at=None,
        outcome=None,
        attempt_started_at=None,
        message=msg("Waiting for resources"),
    )
    work.add_event("attempt", msg("Attempt {attempt} started", attempt=work.after.attempt))


def _apply_observations(work: PlanBuilder, seen: Mapping[str, Observation]) -> None:
    for i, task in enumerate(work.tasks):
        if task.state.live:
            observation = seen.get(work.after.build_attempt_id(task))
            if observation is not None:
                _apply_observation(work, i, task, observation)


def _apply_placement(work: PlanBuilder, decision: Placement | PlacementRefusal | None) -> None:
    if decision is None or work.after.stop or work.after.outcome:
        return
    if isinstance(decision, PlacementRefusal):
        _refuse_job(work, decision)
        return
    places = {assignment.attempt_id: assignment for assignment in decision.assignments}
    for i, task in enumerate(work.tasks):
        place = places.get(work.after.build_attempt_id(task))
        if place is not None and task.state is TaskState.WAITING:
            _place_task(work, i, task, place)
    if work.after.state is JobState.PENDING and any(task.state.live for task in work.tasks):
        nodes = sorted({task.node for task in work.tasks if task.node})
        work.change_state(StateChange.PLACE, "placed", msg("Placed on {nodes}", nodes=", ".join(nodes)))


def _apply_stop(work: PlanBuilder) -> None:
    stop = work.after.stop
    if stop is None:
        return
    message = msg("Stopped: {why}", why=stop.why) if stop.why else msg("Stopped by {actor}", actor=stop.actor)
    reason = Exit(kind=ExitKind.CANCELLED, message=message, behaviour=RetryBehaviour.PERMANENT)
    work.stop_tasks(reason)
    for i, task in enumerate(work.tasks):
        if task.state is TaskState.HELD:
            release_task(work, i, task)


def _enforce_time_limit(work: PlanBuilder, elapsed: timedelta | None) -> None:
    """Stop the job after its time limit; time on hold does not count."""
    limit = work.policy.time_limit
    if limit is None or elapsed is None or elapsed < limit or work.after.stop or work.after.outcome:
        return
    if not work.has_working_tasks():
        return
    text = msg("Exceeded its time limit of {limit}", limit=format_duration(limit))
    reason = Exit(kind=ExitKind.TIME_LIMIT, message=text, behaviour=RetryBehaviour.PERMANENT)
    work.after = replace(work.after, outcome=Outcome(result=OutcomeResult.FAILED, message=text, exit=reason))
    work.add_event("time-limit", text)
    work.stop_tasks(reason)


def _retry_tasks(work: PlanBuilder) -> None:
    if work.job.gang or work.after.stop or work.after.outcome:
        return
    for i, task in enumerate(work.tasks):
        ended = task.state in (TaskState.FAILED, TaskState.SUCCEEDED)
        if task.exit is not None and ended and task.held is None:
            _retry_task(work, i, task, task.exit)


def _apply_outcome(work: PlanBuilder) -> None:
    if work.after.stop or work.after.outcome or work.after.retry_at:
        return
    outcome = decide_outcome(work.job, work.tasks)
    if outcome is None:
        return
    work.after = replace(work.after, outcome=outcome)
    work.stop_tasks(Exit(kind=ExitKind.ATTEMPT_OVER, message=msg("Stopped: the attempt has ended")))


def _end_job_if_done(work: PlanBuilder) -> None:
    if not all(task.state.ended for task in work.tasks):
        return
    if work.after.stop and not any(task.held for task in work.tasks):
        text = work.after.stop.cancelled_message
        reason = Exit(kind=ExitKind.CANCELLED, message=text, code=work.find_exit_code())
        work.end_job(StateChange.CANCEL, "cancelled", text, reason, actor=work.after.stop.actor)
    elif work.after.stop:
        _end_attempt(work, build_hold_outcome(work))
    elif work.after.outcome:
        _end_attempt(work, work.after.outcome)


def _apply_observation(work: PlanBuilder, i: int, task: TaskAttempt, observation: Observation) -> None:
    seen = observation.seen
    if seen is not ObservedState.UNREACHABLE:
        _mark_reachable(work)
    task = _record_machine(work, i, task, observation)
    if task.held is not None:
        apply_held_observation(work, i, task, task.held, seen)
    elif seen is ObservedState.ABSENT and task.state is TaskState.PREPARING and task.stop is None:
        work.add_start_step(work.after.build_attempt_id(task), task)
    elif seen is ObservedState.ABSENT and task.stop is not None:
        work.finish_task(i, task, task.stop)
    elif seen is ObservedState.ABSENT:
        work.finish_task(i, task, build_platform_exit(msg("Its files were not found on the node"), Cause.FILES_GONE))
    elif seen is ObservedState.REFUSED and observation.transient:
        work.finish_task(i, task, task.stop or build_platform_exit(observation.message, observation.cause))
    elif seen is ObservedState.REFUSED:
        text = msg("System Error: {message}", message=observation.message)
        work.finish_task(i, task, task.stop or build_refused_exit(text, observation.cause))
    elif seen is ObservedState.LOST:
        lost = build_platform_exit(observation.message, observation.cause or Cause.LOST)
        work.finish_task(i, _mark_started(work, i, task, observation), task.stop or lost)
    elif seen is ObservedState.EXITED and task.stop is not None and observation.started_at is None:
        _apply_exit(work, i, task, observation)  # it was stopped in the engine's queue
    elif seen is ObservedState.EXITED:
        _apply_exit(work, i, _mark_started(work, i, task, observation), observation)
    elif seen is ObservedState.HELD:
        hold_or_stop_failed_task(work, i, _mark_started(work, i, task, observation), observation)
    elif seen is ObservedState.UNREACHABLE:
        _apply_unreachable(work, observation)
    elif seen is ObservedState.RUNNING:
        task = _mark_started(work, i, task, observation)
    if seen.alive and task.stop is not None and task.held is None and seen is not ObservedState.HELD:
        work.steps.append(StopStep(work.after.build_attempt_id(task), work.policy.grace))


def _apply_unreachable(work: PlanBuilder, observation: Observation) -> None:
    """Show that nothing is known of the job. It is never retried for it: its tasks may run on."""
    if work.after.state is JobState.RUNNING:
        text = msg("Its tasks cannot be observed: {why}", why=observation.message)
        work.change_state(StateChange.LOSE, "unreachable", text)


def _mark_reachable(work: PlanBuilder) -> None:
    if work.after.state is JobState.UNKNOWN:
        work.change_state(StateChange.START, "reachable", "Running")


def _record_machine(work: PlanBuilder, i: int, task: TaskAttempt, observation: Observation) -> TaskAttempt:
    """Record what an engine that places tasks itself has chosen."""
    if not observation.node:
        return task
    host = observation.node if observation.node != task.node else ""
    gpus, ports = observation.gpus or task.gpus, observation.ports or task.ports
    if (host, gpus, ports) == (task.host, task.gpus, task.ports):
        return task
    return work.update_task(i, replace(task, host=host, gpus=gpus, ports=dict(ports)))


def _mark_started(work: PlanBuilder, i: int, task: TaskAttempt, observation: Observation) -> TaskAttempt:
    if task.state is not TaskState.PREPARING:
        return task
    at = observation.started_at or work.now
    task = work.update_task(i, replace(task, state=TaskState.RUNNING, started_at=at))
    work.after = replace(
        work.after, started_at=work.after.started_at or at, attempt_started_at=work.after.attempt_started_at or at
    )
    if work.after.state in (JobState.PREPARING, JobState.UNKNOWN):
        work.change_state(StateChange.START, "started", "Running")
    if len(work.tasks) > 1:
        work.add_event("task-started", msg("{task} runs on {node}", task=task.task, node=task.machine), task)
    if observation.warning:
        work.add_event("warning", observation.warning, task)
    return task


def _apply_exit(work: PlanBuilder, i: int, task: TaskAttempt, observation: Observation) -> None:
    reason = work.classify_exit(task, observation)
    if task.stop is not None:
        known = task.stop.code is not None  # it had failed before its other processes were stopped
        reason = task.stop if known else replace(task.stop, code=reason.code, signal=reason.signal)
    work.finish_task(i, task, reason, observation.finished_at)


def _place_task(work: PlanBuilder, i: int, task: TaskAttempt, place: Assignment) -> None:
    task = work.update_task(
        i,
        replace(
            task,
            state=TaskState.PREPARING,
            engine=place.engine,
            node=place.node,
            gpus=place.gpus,
            ports=dict(place.ports),
            placed_at=work.now,
            retry_at=None,
        ),
    )
    work.add_start_step(place.attempt_id, task)


def _refuse_job(work: PlanBuilder, decision: PlacementRefusal) -> None:
    text = msg("System Error: {reasons}", reasons=join_messages("; ", decision.reasons))
    reason = build_refused_exit(text, decision.cause)
    work.after = replace(work.after, outcome=Outcome(result=OutcomeResult.FAILED, message=text, exit=reason))
    work.stop_tasks(Exit(kind=ExitKind.ATTEMPT_OVER, message=msg("The job was rejected")))


def _retry_task(work: PlanBuilder, i: int, task: TaskAttempt, reason: Exit) -> None:
    verdict = decide_retry(
        limit=work.job.get_role(task.role).max_task_retries,
        user_retries=task.user_retries,
        platform_retries=task.platform_retries,
        exit=reason,
        chance=work.chance,
    )
    if isinstance(verdict, NoRetry):
        return
    work.update_task(
        i,
        TaskAttempt(
            role=task.role,
            index=task.index,
            number=task.number + 1,
            user_retries=task.user_retries + verdict.counted,
            platform_retries=task.platform_retries + (not verdict.counted),
            retry_at=work.now + verdict.delay if verdict.delay else None,
        ),
    )
    work.add_event(
        "task-retry",
        msg("Retrying {task}{delay}: {why}", task=task.task, delay=_format_delay(verdict.delay), why=verdict.why),
        task,
    )


def _end_attempt(work: PlanBuilder, outcome: Outcome) -> None:
    verdict = decide_retry(
        limit=work.job.max_retries,
        user_retries=work.after.user_retries,
        platform_retries=work.after.platform_retries,
        exit=outcome.exit,
        chance=work.chance,
    )
    if isinstance(verdict, NoRetry) or any(task.held for task in work.tasks):
        change = StateChange.SUCCEED if outcome.result is OutcomeResult.SUCCEEDED else StateChange.FAIL
        work.end_job(change, outcome.result.value, outcome.message, outcome.exit)
        return
    work.ended = JobAttempt(
        number=work.after.attempt,
        started_at=work.after.attempt_started_at,
        finished_at=work.now,
        outcome=outcome,
        counted=verdict.counted,
    )
    text = msg(
        "{message}; retrying{delay}: {why}",
        message=outcome.message.removesuffix("."),
        delay=_format_delay(verdict.delay),
        why=verdict.why,
    )
    work.after = replace(
        work.after,
        retry_at=work.now + verdict.delay,
        outcome=None,
        user_retries=work.after.user_retries + verdict.counted,
        platform_retries=work.after.platform_retries + (not verdict.counted),
    )
    work.change_state(StateChange.RETRY, "retry", text)


def _format_delay(delay: timedelta) -> str:
    return msg(" in {delay}", delay=format_duration(delay)) if delay else ""
