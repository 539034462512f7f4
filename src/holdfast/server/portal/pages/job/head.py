"""The top of a job's page: why it is in the state it is in, before anything else."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from holdfast.core.states import JobState
from holdfast.services.jobs.detail import Closeup

from ...visit import Visit
from .log_quote import LogQuote, quote_log
from .verdict import (
    EfficiencyView,
    FailureView,
    SlowView,
    WaitView,
    efficiency_view,
    failure_view,
    slow_views,
    wait_view,
)
from .view import ExitWords, exit_words

_TONES = {
    JobState.FAILED: "bad",
    JobState.CANCELLED: "warn",
    JobState.UNKNOWN: "warn",
    JobState.HELD: "hold",
    JobState.SUCCEEDED: "good",
    JobState.RUNNING: "run",
    JobState.PREPARING: "run",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Why:
    tone: str
    lines: tuple[str, ...]  # the first one is the most telling
    exit: ExitWords | None = None
    task: str | None = None  # the one that decided
    log_task: str | None = None  # the one whose log tells more
    quote: LogQuote | None = None  # what that log says went wrong, where nothing is concluded of it
    wait: WaitView | None = None
    failure: FailureView | None = None
    slow: tuple[SlowView, ...] = ()
    efficiency: EfficiencyView | None = None
    many: bool = False  # it has several tasks
    not_held: str = ""  # why a failed task is not kept, where the job asks for that
    next_try: datetime | None = None
    ends_by: datetime | None = None  # its time is up then


async def why(visit: Visit, job: Closeup) -> Why:
    record = job.record
    summary, outcome = record.summary, record.outcome
    failed = summary.state in (JobState.FAILED, JobState.HELD)
    found = outcome.exit if outcome is not None and failed else None
    log_task = outcome.task if outcome is not None and failed else None
    held = next(iter(visit.services.holds.of(summary.id)), None) if summary.state is JobState.HELD else None
    if held is not None and log_task is None:
        found, log_task = held.held.exit, held.task
    reasons = await visit.services.reasons.of_record(visit.who, record)
    failure = failure_view(visit, summary.id, reasons.failure)
    concluded = failure is not None and failure.known
    wait = wait_view(visit, reasons.waiting)
    return Why(
        tone="warn" if summary.stopping else _TONES.get(summary.state, ""),
        lines=_lines(visit, job, explained=concluded or bool(wait and wait.blockers)),
        exit=exit_words(visit, record.exit or found) if failed and not concluded else None,
        task=outcome.task if outcome is not None and summary.task_count > 1 else None,
        log_task=(failure.task if failure and failure.known else None) or log_task,
        quote=None if failure and failure.quotes else await quote_log(visit, summary.id, log_task),
        not_held=visit.tell(await visit.services.closeup.not_held(job)),
        next_try=summary.retry_at,
        ends_by=_ends_by(job),
        wait=wait,
        failure=failure if concluded or (failure and failure.quotes) else None,
        slow=slow_views(visit, reasons.slow),
        efficiency=efficiency_view(visit, reasons.efficiency),
        many=summary.task_count > 1,
    )


def _lines(visit: Visit, job: Closeup, *, explained: bool) -> tuple[str, ...]:
    """What its state says; `explained`: the verdict below says why."""
    record = job.record
    message = visit.tell(record.summary.message)
    if record.stop is not None and record.summary.stopping:
        asked = visit.say("{name} asked for it to stop; it is being stopped.", name=record.stop.actor)
        return (asked, visit.tell(record.stop.why)) if record.stop.why else (asked,)
    if record.summary.state is JobState.PENDING:
        told = () if explained else tuple(visit.tell(reason) for reason in job.waiting or ())
        first = (message,) if message and message not in told else ()
        soon = () if explained else (visit.say("It is next: it starts in a moment."),)
        return (*first, *told) or soon
    if record.summary.state in (JobState.PREPARING, JobState.RUNNING):
        return (message or visit.say("It is being started."),)
    return (message,) if message and not explained else ()


def _ends_by(job: Closeup) -> datetime | None:
    began = job.record.attempt_started_at
    running = job.record.summary.state is JobState.RUNNING
    if not running or began is None or job.time_limit is None or not job.time_limit:
        return None
    return began + job.time_limit
