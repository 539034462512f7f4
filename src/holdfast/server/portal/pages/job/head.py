"""The top of a job's page: why the job is in its state."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from holdfast.core.states import JobState
from holdfast.services.jobs.job_pages import JobHeader

from ...visit import Visit
from .log_quote import LogQuote, quote_log_error
from .verdict import (
    EfficiencyView,
    FailureView,
    FindingView,
    WaitView,
    build_efficiency_view,
    build_failure_view,
    build_finding_views,
    build_wait_view,
)
from .view import ExitDescription, describe_exit

_STATE_TONES = {
    JobState.FAILED: "bad",
    JobState.CANCELLED: "warn",
    JobState.UNKNOWN: "warn",
    JobState.HELD: "hold",
    JobState.SUCCEEDED: "good",
    JobState.RUNNING: "run",
    JobState.PREPARING: "run",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class StateExplanation:
    tone: str
    lines: tuple[str, ...]  # the most important one first
    exit: ExitDescription | None = None
    task: str | None = None  # the task that decided the state
    log_task: str | None = None  # the task whose log has details
    quote: LogQuote | None = None  # the first error in that log, if there is no verdict
    wait: WaitView | None = None
    failure: FailureView | None = None
    slow: tuple[FindingView, ...] = ()
    efficiency: EfficiencyView | None = None
    many: bool = False  # the job has several tasks
    not_held: str = ""  # why a failed task is not held although the job requests it
    next_try: datetime | None = None
    ends_by: datetime | None = None  # when its time limit expires


async def explain_state(visit: Visit, job: JobHeader) -> StateExplanation:
    record = job.record
    summary, outcome = record.summary, record.outcome
    failed = summary.state in (JobState.FAILED, JobState.HELD)
    found = outcome.exit if outcome is not None and failed else None
    log_task = outcome.task if outcome is not None and failed else None
    held = (
        next(iter(visit.services.holds.list_held_tasks(summary.id)), None) if summary.state is JobState.HELD else None
    )
    if held is not None and log_task is None:
        found, log_task = held.held.exit, held.task
    reasons = await visit.services.explanations.explain_record(visit.current_actor, record)
    failure = build_failure_view(visit, summary.id, reasons.failure)
    concluded = failure is not None and failure.known
    wait = build_wait_view(visit, reasons.waiting)
    return StateExplanation(
        tone="warn" if summary.stopping else _STATE_TONES.get(summary.state, ""),
        lines=_build_state_messages(visit, job, explained=concluded or bool(wait and wait.blockers)),
        exit=describe_exit(visit, record.exit or found) if failed and not concluded else None,
        task=outcome.task if outcome is not None and summary.task_count > 1 else None,
        log_task=(failure.task if failure and failure.known else None) or log_task,
        quote=None if failure and failure.quotes else await quote_log_error(visit, summary.id, log_task),
        not_held=visit.translate_message(await visit.services.job_pages.explain_missing_hold(job)),
        next_try=summary.retry_at,
        ends_by=_compute_deadline(job),
        wait=wait,
        failure=failure if concluded or (failure and failure.quotes) else None,
        slow=build_finding_views(visit, reasons.slow),
        efficiency=build_efficiency_view(visit, reasons.efficiency),
        many=summary.task_count > 1,
    )


def _build_state_messages(visit: Visit, job: JobHeader, *, explained: bool) -> tuple[str, ...]:
    """Return texts about the state; `explained`: the verdict below has the reason."""
    record = job.record
    message = visit.translate_message(record.summary.message)
    if record.stop is not None and record.summary.stopping:
        stopping = visit.translate_text("{name} requested a stop. The job is stopping.", name=record.stop.actor)
        return (stopping, visit.translate_message(record.stop.why)) if record.stop.why else (stopping,)
    if record.summary.state is JobState.PENDING:
        waiting = () if explained else tuple(visit.translate_message(reason) for reason in job.waiting or ())
        first = (message,) if message and message not in waiting else ()
        soon = () if explained else (visit.translate_text("It is next in the queue and starts soon."),)
        return (*first, *waiting) or soon
    if record.summary.state is JobState.PREPARING and explained:
        return ()
    if record.summary.state in (JobState.PREPARING, JobState.RUNNING):
        return (message or visit.translate_text("It is starting."),)
    return (message,) if message and not explained else ()


def _compute_deadline(job: JobHeader) -> datetime | None:
    began = job.record.attempt_started_at
    running = job.record.summary.state is JobState.RUNNING
    if not running or began is None or job.time_limit is None or not job.time_limit:
        return None
    return began + job.time_limit
