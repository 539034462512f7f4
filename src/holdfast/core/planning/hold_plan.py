"""Holds in a plan: hold, extend, warn and release failed tasks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta

from ..attempt import Observation, ObservedState, Outcome, OutcomeResult, TaskAttempt, TaskHold
from ..exits.exit import Exit
from ..holds import HoldAction, HoldPolicy, HoldRequest, can_be_held, compute_warning_time, render_hold_banner
from ..job import HoldScope
from ..messages import join_messages, msg
from ..states import JobState, StateChange, TaskState
from .builder import PlanBuilder
from .durations import format_duration
from .steps import AppendLogStep, StopStep


def apply_hold_requests(work: PlanBuilder, requests: Sequence[HoldRequest]) -> None:
    for request in requests:
        for i, task in enumerate(work.tasks):
            if task.state is TaskState.HELD and task.stop is None and request.task in (None, task.task):
                _apply_hold_request(work, i, task, request)


def end_expired_holds(work: PlanBuilder) -> None:
    for i, task in enumerate(work.tasks):
        held = task.held
        if task.state is TaskState.HELD and held and task.stop is None and work.now >= held.until:
            work.add_event("hold-ended", msg("The hold on {task} has expired", task=task.task), task)
            release_task(work, i, task)


def warn_before_expiry(work: PlanBuilder) -> None:
    """Warn once for each expiry; an extended hold has a new one."""
    for i, task in enumerate(work.tasks):
        held = task.held
        if task.state is not TaskState.HELD or held is None or held.warned or task.stop is not None:
            continue
        at = compute_warning_time(held.since, held.until)
        if at is not None and work.now >= at:
            work.update_task(i, replace(task, held=replace(held, warned=True)))
            work.add_event(
                "hold-ending",
                msg("The hold on {task} expires at {until} UTC", task=task.task, until=f"{held.until:%Y-%m-%d %H:%M}"),
                task,
            )


def update_held_state(work: PlanBuilder) -> None:
    held = [task for task in work.tasks if task.state is TaskState.HELD]
    if work.after.state is JobState.RUNNING and held:
        first = join_messages(": ", (held[0].task, held[0].held.exit.message)) if held[0].held else held[0].task
        others = msg(" (and {count} more)", count=len(held) - 1) if len(held) > 1 else ""
        work.change_state(StateChange.HOLD, "held", msg("{first}; on hold{others}", first=first, others=others))
    elif work.after.state is JobState.HELD and not held:
        work.change_state(StateChange.RESUME, "resumed", msg("No task is on hold any more"))


def build_hold_outcome(work: PlanBuilder) -> Outcome:
    """Return the outcome of a job that was stopped while tasks were on hold: it had failed before."""
    task = next(task for task in work.tasks if task.held)
    assert task.held is not None
    reason = task.held.exit
    text = join_messages(": ", (task.task, reason.message))
    return Outcome(result=OutcomeResult.FAILED, message=text, exit=reason, role=task.role, index=task.index)


def apply_held_observation(work: PlanBuilder, i: int, task: TaskAttempt, held: TaskHold, seen: ObservedState) -> None:
    """Apply an observation of a held task: when its processes end, its files stay until the hold expires."""
    if seen is ObservedState.ABSENT:
        work.add_event("hold-ended", msg("The files of {task} were not found on the node", task=task.task), task)
        work.finish_task(i, task, held.exit, task.finished_at)
    elif seen in (ObservedState.EXITED, ObservedState.LOST):
        if task.stop is not None:
            work.finish_task(i, task, held.exit, task.finished_at)
        elif not held.ended:
            ended = replace(held, keep=HoldScope.FILES, ended=True)
            work.update_task(i, replace(task, held=ended, finished_at=work.now))
            work.add_event(
                "hold-files",
                msg("Only the files of {task} stay on hold: its processes have ended", task=task.task),
                task,
            )
    elif task.stop is not None or held.keep is HoldScope.FILES:
        work.steps.append(StopStep(work.after.build_attempt_id(task), work.policy.grace))
    else:
        _add_hold_banner_step(work, task, held)


def hold_or_stop_failed_task(work: PlanBuilder, i: int, task: TaskAttempt, observation: Observation) -> None:
    """Hold or stop a task whose command failed and whose other processes still run."""
    reason = work.classify_exit(task, observation)
    hold = work.policy.hold
    if task.stop is None and hold is not None and can_be_held(reason) and work.held_now < hold.remaining_holds:
        work.held_now += 1
        _hold_task(work, i, task, reason, hold)
        return
    if task.stop is None:
        task = work.update_task(i, replace(task, stop=reason))
        if hold is not None and can_be_held(reason):
            work.add_event(
                "not-held", msg("{task} was not put on hold: {refusal}", task=task.task, refusal=hold.refusal), task
            )
    work.steps.append(StopStep(work.after.build_attempt_id(task), timedelta()))


def _hold_task(work: PlanBuilder, i: int, task: TaskAttempt, reason: Exit, hold: HoldPolicy) -> None:
    held = TaskHold(since=work.now, until=work.now + hold.duration, exit=reason, keep=hold.keep)
    task = work.update_task(i, replace(task, state=TaskState.HELD, held=held))
    kept = msg("with its processes and resources") if hold.keep is HoldScope.ALL else msg("files only")
    text = msg(
        "{task}: {message}; on hold for {duration}, {kept}",
        task=task.task,
        message=reason.message,
        duration=format_duration(hold.duration),
        kept=kept,
    )
    work.add_event("task-held", text, task)
    _add_hold_banner_step(work, task, held)
    if hold.keep is HoldScope.FILES:
        work.steps.append(StopStep(work.after.build_attempt_id(task), work.policy.grace))


def _add_hold_banner_step(work: PlanBuilder, task: TaskAttempt, held: TaskHold) -> None:
    banner = render_hold_banner(held.exit.code or 0, HoldPolicy(duration=held.until - held.since, keep=held.keep))
    work.steps.append(AppendLogStep(work.after.build_attempt_id(task), "held", banner))


def _apply_hold_request(work: PlanBuilder, i: int, task: TaskAttempt, request: HoldRequest) -> None:
    assert task.held is not None
    if request.action is HoldAction.RELEASE:
        text = request.why or msg("{task} was released by {actor}", task=task.task, actor=request.actor)
        work.add_event("hold-ended", text, task, request.actor)
        release_task(work, i, task)
    elif request.action is HoldAction.EXTEND and request.until is not None:
        until = request.until
        if work.policy.hold is not None:
            until = min(until, task.held.since + work.policy.hold.longest)
        work.update_task(i, replace(task, held=replace(task.held, until=until, warned=False)))
        text = msg(
            "{task} is on hold until {until} UTC: extended by {actor}",
            task=task.task,
            until=f"{until:%Y-%m-%d %H:%M}",
            actor=request.actor,
        )
        work.add_event("hold-extended", text, task, request.actor)
    elif request.action is HoldAction.KEEP_FILES and task.held.keep is HoldScope.ALL:
        work.update_task(i, replace(task, held=replace(task.held, keep=HoldScope.FILES)))
        work.add_event(
            "hold-files",
            msg("Only the files of {task} stay on hold: requested by {actor}", task=task.task, actor=request.actor),
            task,
        )
        work.steps.append(StopStep(work.after.build_attempt_id(task), work.policy.grace))


def release_task(work: PlanBuilder, i: int, task: TaskAttempt) -> None:
    """End a held task as it would have ended without the hold."""
    assert task.held is not None
    if task.held.ended:
        work.finish_task(i, task, task.held.exit, task.finished_at)
    elif task.stop is None:
        work.update_task(i, replace(task, stop=task.held.exit))
        work.steps.append(StopStep(work.after.build_attempt_id(task), work.policy.grace))
