"""The `why` command."""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated

import typer

from holdfast.core.errors import UserError

from .. import output
from ..options import JsonOption, complete_job, open_client
from ..quantities import format_count, format_duration, format_local_time, format_resources, format_size, utc_now

if TYPE_CHECKING:
    from holdfast.api.resources import ResourceAmount
    from holdfast.api.why import Blocker, Efficiency, Failure, JobAhead, JobExplanation, ResourceHolder, WaitExplanation
    from holdfast.sdk import Client

JobOrNewestArgument = Annotated[
    str | None,
    typer.Argument(
        metavar="JOB",
        help="Job id, a unique part of it, or a name; or a schedule id. Default: your newest job.",
        autocompletion=complete_job,
        show_default=False,
    ),
]
LabelledLine = tuple[str, str]  # label and text
MAX_LINES = 12  # of one log excerpt
LOG_EVIDENCE_KIND = "log"
UTC_TIME_PATTERN = re.compile(r"(\d{4}-\d\d-\d\d \d\d:\d\d:\d\d) UTC")
SCHEDULE_ID_PREFIX = "recurrence-"

END_STATE_PHRASES = {
    "Succeeded": "succeeded",
    "Cancelled": "was cancelled",
    "Failed": "failed",
    "Held": "failed and is held",
}


def why(job: JobOrNewestArgument = None, json: JsonOption = False) -> None:
    """Explain why a job is pending, failed or slow, and what to do.

    For a schedule id: what its next run waits for.
    """
    if job is not None and job.startswith(SCHEDULE_ID_PREFIX):
        _explain_schedule(job, json)
        return
    with open_client() as client:
        found = client.explain_job(job if job is not None else _find_newest_job(client))
    if json:
        output.emit_json(found)
        return
    _print_lines(*_summarize_verdict(found), _iter_explanation_lines(found))
    output.print_hint(*_suggest_commands(found))


def _explain_schedule(id: str, json: bool) -> None:
    with open_client() as client:
        found = client.explain_schedule(id)
    if json:
        output.emit_json(found)
        return
    text, style = _summarize_wait(id, found) if found.blockers else (f"{id} waits for its next run.", "")
    _print_lines(text, style, _iter_wait_lines(found, first_is_told=True))
    output.print_hint(f"holdfast schedule show {id}")


def _print_lines(text: str, style: str, lines: Iterator[LabelledLine]) -> None:
    output.emit_styled(output.escape(text), style)
    before = ""
    for label, line in lines:
        shown = "" if label == before else label
        output.emit_line(f"  {shown:<10} {output.escape(line)}".rstrip())
        before = label


def _find_newest_job(client: Client) -> str:
    found = client.list_jobs(mine=True, limit=1).items
    if not found:
        raise UserError("You have no jobs", hint="Name a job; list them with `holdfast ls`.")
    return found[0].id


# -- the first line


def _summarize_verdict(found: JobExplanation) -> tuple[str, str]:
    who = f"{found.name} ({found.job})"
    if found.failure is not None:
        return _summarize_failure(who, found.state, found.failure)
    if found.verdict == "waiting" and found.waiting is not None:
        return _summarize_wait(who, found.waiting)
    state = END_STATE_PHRASES.get(
        found.state, "is running" if found.state == "Running" else f"is {found.state.lower()}"
    )
    if found.debugger:
        return f"{who} {state}; a debugger waits at {found.debugger}.", "yellow"
    if found.slow:
        return f"{who} {state}: {found.slow[0].text}", "yellow"
    if found.state == "Cancelled":
        return f"{who} {state}: {found.message}" if found.message else f"{who} {state}", ""
    return f"{who} {state}; no problems found.", "green" if found.state == "Succeeded" else ""


def _summarize_failure(who: str, state: str, failure: Failure) -> tuple[str, str]:
    ended = END_STATE_PHRASES.get(state, "failed before")
    if failure.fault == "unknown":
        return f"{who} {ended}; cause unknown: {failure.title}", "bold red"
    sure = "" if failure.confidence == "certain" else f" ({failure.confidence})"
    return f"{who} {ended}: {failure.title}{sure}", "bold red"


def _summarize_wait(who: str, wait: WaitExplanation) -> tuple[str, str]:
    if not wait.blockers:
        return f"{who} is about to start.", "green"
    return f"{who} is waiting: {_localize_times(wait.blockers[0].text)}", "yellow"


# -- evidence and hints


def _iter_explanation_lines(found: JobExplanation) -> Iterator[LabelledLine]:
    if found.failure is not None:
        yield from _iter_failure_lines(found.failure)
    if found.debugger and found.verdict != "debugger":
        yield "debugger", f"waiting at {found.debugger}"
    if found.waiting is not None:
        yield from _iter_wait_lines(found.waiting, first_is_told=found.verdict == "waiting")
    is_slow = found.failure is None and found.verdict == "slow"
    for at, finding in enumerate(found.slow):
        tasks = f" ({', '.join(finding.tasks)})" if finding.tasks else ""
        if at or not is_slow:
            yield "slow", finding.text + tasks
        if finding.remedy:
            yield "hint", finding.remedy
    if found.efficiency is not None:
        yield from _iter_efficiency_lines(found.efficiency)


def _iter_failure_lines(failure: Failure) -> Iterator[LabelledLine]:
    if failure.explanation:
        yield "cause", failure.explanation
    if failure.frame is not None:
        frame = failure.frame
        inside = f" in {frame.function}" if frame.function else ""
        yield "where", f"{frame.file}:{frame.line}{inside}" + (f": {frame.code.strip()}" if frame.code else "")
    if failure.task:
        yield "task", failure.task + (f", in attempt {failure.attempt}" if failure.attempt else "")
    for evidence in failure.evidence:
        if evidence.kind != LOG_EVIDENCE_KIND:
            yield "evidence", evidence.text
            continue
        lines = evidence.text.splitlines()
        for line in lines[-MAX_LINES:]:
            yield "log", f"| {line}"
    if failure.followers:
        yield "secondary", f"{', '.join(failure.followers)} failed because of it"
    for remedy in failure.remedies:
        yield "hint", remedy


def _iter_wait_lines(wait: WaitExplanation, *, first_is_told: bool) -> Iterator[LabelledLine]:
    listed: set[tuple[LabelledLine, ...]] = set()
    for at, blocker in enumerate(wait.blockers):
        if at or not first_is_told:
            yield "waiting", _localize_times(blocker.text)
        lines = tuple(_iter_holder_lines(blocker))
        yield from (("in use by", "the same jobs"),) if lines in listed else lines
        listed |= {lines} if lines else set()
    for ahead in wait.ahead:
        yield "ahead", _format_ahead(ahead)
    if wait.ahead_count > len(wait.ahead):
        yield "ahead", f"and {format_count(wait.ahead_count - len(wait.ahead), 'more job')}"
    for help in wait.helps:
        yield "hint", _localize_times(help)
    if wait.estimate is not None:
        yield "starts", _format_estimate(wait)


def _iter_holder_lines(blocker: Blocker) -> Iterator[LabelledLine]:
    for holder in blocker.holders:
        yield "in use by", _format_holder(holder)
    if blocker.more_holders:
        yield "in use by", f"and {format_count(blocker.more_holders, 'more job')}"


def _format_holder(holder: ResourceHolder) -> str:
    has, now = _format_resource_amount(holder.has), utc_now()
    who = _format_outside_jobs(holder) if holder.outside else _format_job_name(holder)
    parts = [f"{who}: {has}" if has else who]
    if holder.since is not None:
        parts.append(f"for {format_duration((now - holder.since).total_seconds())}")
    if holder.held:
        parts.append(f"held until {_format_time_with_zone(holder.until)}" if holder.until else "held")
        parts += [f"holdfast release {holder.job}"] if holder.job else []
    else:
        parts.append(f"until {_format_time_with_zone(holder.until)} at the latest" if holder.until else "no time limit")
    return ", ".join(parts)


def _format_ahead(ahead: JobAhead) -> str:
    group = f" in group {ahead.group}" if ahead.group else ""
    return f"{_format_job_name(ahead)}{group}: {_format_resource_amount(ahead.asks)}"


def _format_job_name(job: ResourceHolder | JobAhead) -> str:
    if not job.job:
        return "a job of another group"
    return f"{job.name} ({job.job}) of {job.user}" if job.name else job.job


def _format_outside_jobs(holder: ResourceHolder) -> str:
    return f"{format_count(holder.job_count, 'job')} of {holder.user} in {holder.outside}"


def _format_resource_amount(amount: ResourceAmount) -> str:
    cpu = round(amount.cpu, 3) if amount.cpu else None
    return format_resources(cpu, amount.memory or None, amount.gpu or None)


def _format_estimate(wait: WaitExplanation) -> str:
    assert wait.estimate is not None
    at, basis = wait.estimate.at, _localize_times(wait.estimate.basis)
    if at is None:
        return basis
    left = (at - utc_now()).total_seconds()
    return f"{_format_time_with_zone(at)}, in {format_duration(left)}. {basis}" if left > 0 else f"now. {basis}"


def _format_time_with_zone(at: datetime) -> str:
    """Format in local time."""
    return f"{format_local_time(at)} {at.astimezone():%Z}"


def _localize_times(text: str) -> str:
    """Convert UTC times of the server to local time."""
    return UTC_TIME_PATTERN.sub(
        lambda found: _format_time_with_zone(datetime.fromisoformat(found[1]).replace(tzinfo=UTC)), text
    )


def _iter_efficiency_lines(found: Efficiency) -> Iterator[LabelledLine]:
    for usage_lines in iter_usage_lines(found):
        yield "used", usage_lines
    for advice in found.advice:
        yield "advice", advice


def iter_usage_lines(found: Efficiency) -> Iterator[str]:
    """Yield lines such as 0.5 of 2 cores on average."""
    used = found.whole
    if used.cpu_used is not None:
        yield f"{used.cpu_used:.2g} of {format_count(used.cpu_asked, 'core')} on average"
    if used.memory_peak is not None:
        yield f"{format_size(used.memory_peak)} of {format_size(used.memory_asked)} at peak"
    if used.gpu_asked and used.gpu_used is not None:
        yield f"{used.gpu_used:.2g} of {format_count(used.gpu_asked, 'GPU')} on average"


def _suggest_commands(found: JobExplanation) -> list[str]:
    job = found.job
    task = f" {found.failure.task}" if found.failure and found.failure.task else ""
    if found.debugger:
        return [f"holdfast debug {job}", f"holdfast logs {job}", f"holdfast stop {job}"]
    if found.state == "Held":
        return [f"holdfast ssh {job}{task}", f"holdfast logs {job}{task}", f"holdfast release {job}"]
    if found.failure is not None and found.state != "Running":
        return [f"holdfast logs {job}{task}", f"holdfast rerun {job} --hold"]
    if found.verdict == "waiting":
        return [f"holdfast clone {job} > job.yaml", f"holdfast stop {job}", "holdfast top"]
    if found.state in ("Running", "Preparing"):
        return [f"holdfast stack {job}", f"holdfast logs -f {job}", f"holdfast ssh {job}"]
    return [f"holdfast logs {job}", f"holdfast show {job}"]
