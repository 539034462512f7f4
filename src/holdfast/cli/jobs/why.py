"""`holdfast why`: why a job waits, failed or is slow, and what to do about it."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated

import typer

from holdfast.core.errors import UserError

from .. import output
from ..options import Json, complete_job, connect
from ..quantities import show_count, show_duration, show_instant, show_size, utc_now

if TYPE_CHECKING:
    from holdfast.api.resources import Amount
    from holdfast.api.why import Ahead, Blocker, Efficiency, Failure, Holder, Wait, Why
    from holdfast.sdk import Client

JobOrNewest = Annotated[
    str | None,
    typer.Argument(
        metavar="JOB",
        help="Id, a unique part of it, or a name; or the id of a schedule. Default: the newest job of yours.",
        autocompletion=complete_job,
        show_default=False,
    ),
]
Line = tuple[str, str]  # a label, and what is said under it
MAX_LINES = 12  # of one piece of a log
LOG = "log"
INSTANT = re.compile(r"(\d{4}-\d\d-\d\d \d\d:\d\d:\d\d) UTC")
SCHEDULE = "recurrence-"  # how ids of schedules begin

ENDED = {"Succeeded": "succeeded", "Cancelled": "was cancelled", "Failed": "failed", "Held": "failed and is held"}


def why(job: JobOrNewest = None, json: Json = False) -> None:
    """Say why a job waits, failed or is slow, and what would help.

    Of a schedule, by its id: what its next run waits for.
    """
    if job is not None and job.startswith(SCHEDULE):
        _why_schedule(job, json)
        return
    with connect() as client:
        found = client.why(job if job is not None else _newest(client))
    if json:
        output.emit_json(found)
        return
    _show(*_verdict(found), _lines(found))
    output.hint(*_next(found))


def _why_schedule(id: str, json: bool) -> None:
    with connect() as client:
        found = client.why_schedule(id)
    if json:
        output.emit_json(found)
        return
    text, style = _waits(id, found) if found.blockers else (f"{id} waits for its next time.", "")
    _show(text, style, _wait(found, first_is_told=True))
    output.hint(f"holdfast schedule show {id}")


def _show(text: str, style: str, lines: Iterator[Line]) -> None:
    output.emit(output.styled(output.safe(text), style, sys.stdout))
    before = ""
    for label, said in lines:
        shown = "" if label == before else label
        output.emit(f"  {shown:<10} {output.safe(said)}".rstrip())
        before = label


def _newest(client: Client) -> str:
    found = client.jobs(mine=True, limit=1).items
    if not found:
        raise UserError("You have no job", hint="Name one: `holdfast ls` lists those you may see.")
    return found[0].id


# -- the first line


def _verdict(found: Why) -> tuple[str, str]:
    who = f"{found.name} ({found.job})"
    if found.failure is not None:
        return _failed(who, found.state, found.failure)
    if found.verdict == "waiting" and found.waiting is not None:
        return _waits(who, found.waiting)
    state = ENDED.get(found.state, "runs" if found.state == "Running" else f"is {found.state.lower()}")
    if found.debugger:
        return f"{who} {state}, and a debugger waits at {found.debugger}.", "yellow"
    if found.slow:
        return f"{who} {state}: {found.slow[0].text}", "yellow"
    if found.state == "Cancelled":
        return f"{who} {state}: {found.message}" if found.message else f"{who} {state}", ""
    return f"{who} {state}; nothing stands out.", "green" if found.state == "Succeeded" else ""


def _failed(who: str, state: str, failure: Failure) -> tuple[str, str]:
    ended = ENDED.get(state, "failed before")
    if failure.fault == "unknown":
        return f"{who} {ended}, and nothing shows why: {failure.title}", "bold red"
    sure = "" if failure.confidence == "certain" else f" ({failure.confidence})"
    return f"{who} {ended}: {failure.title}{sure}", "bold red"


def _waits(who: str, wait: Wait) -> tuple[str, str]:
    if not wait.blockers:
        return f"{who} is about to start.", "green"
    return f"{who} waits: {_with_local_times(wait.blockers[0].text)}", "yellow"


# -- what it rests on, and what to do


def _lines(found: Why) -> Iterator[Line]:
    if found.failure is not None:
        yield from _failure(found.failure)
    if found.debugger and found.verdict != "debugger":
        yield "debugger", f"waits at {found.debugger}"
    if found.waiting is not None:
        yield from _wait(found.waiting, first_is_told=found.verdict == "waiting")
    said = found.failure is None and found.verdict == "slow"
    for at, finding in enumerate(found.slow):
        tasks = f" ({', '.join(finding.tasks)})" if finding.tasks else ""
        if at or not said:
            yield "slow", finding.text + tasks
        if finding.remedy:
            yield "try", finding.remedy
    if found.efficiency is not None:
        yield from _efficiency(found.efficiency)


def _failure(failure: Failure) -> Iterator[Line]:
    if failure.explanation:
        yield "because", failure.explanation
    if failure.frame is not None:
        frame = failure.frame
        inside = f" in {frame.function}" if frame.function else ""
        yield "where", f"{frame.file}:{frame.line}{inside}" + (f": {frame.code.strip()}" if frame.code else "")
    if failure.task:
        yield "task", failure.task + (f", in attempt {failure.attempt}" if failure.attempt else "")
    for evidence in failure.evidence:
        if evidence.kind != LOG:
            yield "evidence", evidence.text
            continue
        lines = evidence.text.splitlines()
        for line in lines[-MAX_LINES:]:
            yield "log", f"| {line}"
    if failure.followers:
        yield "followers", f"{', '.join(failure.followers)} failed because of it"
    for remedy in failure.remedies:
        yield "try", remedy


def _wait(wait: Wait, *, first_is_told: bool) -> Iterator[Line]:
    told: set[tuple[Line, ...]] = set()
    for at, blocker in enumerate(wait.blockers):
        if at or not first_is_told:
            yield "waits", _with_local_times(blocker.text)
        lines = tuple(_holders(blocker))
        yield from (("in use by", "the same jobs"),) if lines in told else lines
        told |= {lines} if lines else set()
    for ahead in wait.ahead:
        yield "before it", _ahead(ahead)
    if wait.ahead_count > len(wait.ahead):
        yield "before it", f"and {show_count(wait.ahead_count - len(wait.ahead), 'more job')}"
    for help in wait.helps:
        yield "try", _with_local_times(help)
    if wait.estimate is not None:
        yield "starts", _estimate(wait)


def _holders(blocker: Blocker) -> Iterator[Line]:
    for holder in blocker.holders:
        yield "in use by", _holder(holder)
    if blocker.more_holders:
        yield "in use by", f"and {show_count(blocker.more_holders, 'more job')}"


def _holder(holder: Holder) -> str:
    has, now = _amount(holder.has), utc_now()
    parts = [f"{_called(holder)}: {has}" if has else _called(holder)]
    if holder.since is not None:
        parts.append(f"for {show_duration((now - holder.since).total_seconds())}")
    if holder.held:
        parts.append(f"held until {_local(holder.until)}" if holder.until else "held")
        parts += [f"holdfast release {holder.job}"] if holder.job else []
    else:
        parts.append(f"until {_local(holder.until)} at the latest" if holder.until else "without a time limit")
    return ", ".join(parts)


def _ahead(ahead: Ahead) -> str:
    group = f" in group {ahead.group}" if ahead.group else ""
    return f"{_called(ahead)}{group}: {_amount(ahead.asks)}"


def _called(job: Holder | Ahead) -> str:
    if not job.job:
        return "a job of another group"
    return f"{job.name} ({job.job}) of {job.user}" if job.name else job.job


def _amount(amount: Amount) -> str:
    parts = [show_count(round(amount.cpu, 3), "core")] if amount.cpu else []
    parts += [show_size(amount.memory)] if amount.memory else []
    parts += [show_count(amount.gpu, "GPU")] if amount.gpu else []
    return ", ".join(parts)


def _estimate(wait: Wait) -> str:
    assert wait.estimate is not None
    at, basis = wait.estimate.at, _with_local_times(wait.estimate.basis)
    if at is None:
        return basis
    left = (at - utc_now()).total_seconds()
    return f"{_local(at)}, in {show_duration(left)}. {basis}" if left > 0 else f"now. {basis}"


def _local(at: datetime) -> str:
    """On the reader's own clock."""
    return f"{show_instant(at)} {at.astimezone():%Z}"


def _with_local_times(text: str) -> str:
    """As the lines beside it: what the server says is in UTC."""
    return INSTANT.sub(lambda found: _local(datetime.fromisoformat(found[1]).replace(tzinfo=UTC)), text)


def _efficiency(found: Efficiency) -> Iterator[Line]:
    for said in used_words(found):
        yield "used", said
    for advice in found.advice:
        yield "advice", advice


def used_words(found: Efficiency) -> Iterator[str]:
    """0.5 of 2 cores, on the average"""
    used = found.whole
    if used.cpu_used is not None:
        yield f"{used.cpu_used:.2g} of {show_count(used.cpu_asked, 'core')}, on the average"
    if used.memory_peak is not None:
        yield f"{show_size(used.memory_peak)} of {show_size(used.memory_asked)}, at its highest"
    if used.gpu_asked and used.gpu_used is not None:
        yield f"{used.gpu_used:.2g} of {show_count(used.gpu_asked, 'GPU')}, on the average"


# -- what one would do next


def _next(found: Why) -> list[str]:
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
