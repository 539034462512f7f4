"""release and extend: failed tasks that are kept for debugging."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Annotated

import typer

from .. import output
from ..options import JobRef, Json, connect
from ..quantities import parse_duration, parse_since, show_duration, show_instant, utc_now

if TYPE_CHECKING:
    from holdfast.api.jobs import Event, Held, JobDetail, ListedJob

TaskName = Annotated[
    str | None, typer.Argument(metavar="TASK", help="Which of its held tasks: worker-0. Default: all of them.")
]


def release(job: JobRef, task: TaskName = None, json: Json = False) -> None:
    """Let held tasks go: they end, and give back what they have."""
    with connect() as client:
        released = client.release(job, task)
    if json:
        output.emit_json(released)
        return
    names = ", ".join(map(output.safe, released.released))
    output.emit(f"{names} of {output.safe(released.name)} ({released.id}) {_is(released.released)} let go.")
    output.hint(f"holdfast show {released.id}", f"holdfast rerun {released.id} --hold")


def extend(
    job: JobRef,
    task: TaskName = None,
    longer: Annotated[
        str | None, typer.Option("--for", metavar="TIME", help="For so much longer: 12h, 3d. Default: the usual time.")
    ] = None,
    until: Annotated[str | None, typer.Option(metavar="TIME", help="Until then: 2026-01-31T12:00.")] = None,
    files_only: Annotated[
        bool, typer.Option("--files-only", help="End the processes and free their resources; keep the files.")
    ] = False,
    json: Json = False,
) -> None:
    """Hold failed tasks longer, or only their files."""
    if longer is not None and until is not None:
        raise typer.BadParameter("choose --for or --until")
    with connect() as client:
        seconds = parse_duration(longer) if longer is not None else None
        changed = client.extend(job, task, longer=seconds, until=_instant(until), files_only=files_only)
    if json:
        output.emit_json(changed)
        return
    for each in changed.tasks:
        output.emit(f"{output.safe(each.task)} is held {held_words(each, utc_now())}.")
    output.hint(f"holdfast ssh {changed.job}", f"holdfast release {changed.job}")


def held_words(held: Held, now: datetime) -> str:
    """until 2026-01-31 12:00:00, 6d23h left; its files only"""
    kept = "its files only" if held.keep == "files" else "with all it has"
    return f"until {show_instant(held.until)}, {time_left(held.until, now)}; {kept}"


def refused_hold(job: JobDetail, events: Sequence[Event]) -> str:
    """main-0: ann has 10 held tasks, …; empty where nothing was refused, or it does not matter any more."""
    told = [event.message for event in events if event.kind == "not-held" and event.attempt == job.attempt]
    if not told or str(job.state) == "Succeeded":
        return ""
    first = told[0].replace(" is not held: ", ": ", 1)
    return first if len(told) == 1 else f"{first} (and {len(told) - 1} more: holdfast events {job.id})"


def rerun_words(job: JobDetail) -> str:
    """What runs a job again that failed: kept, where it was not before."""
    was_held = any(task.held for task in job.tasks)
    return f"holdfast rerun {job.id}" if was_held else f"holdfast rerun {job.id} --hold"


def time_left(until: datetime, now: datetime) -> str:
    return f"{show_duration(max(0.0, (until - now).total_seconds()))} left"


def with_time_left(job: ListedJob, now: datetime) -> str:
    """The message of a job, for one line of a list. Where a debugger waits for somebody, that is the message."""
    if job.debugger:
        return f"debugger waiting at {job.debugger}"
    if job.held_until is None:
        return "" if job.message == job.state else job.message
    return f"{job.message}, {time_left(job.held_until, now)}"


def _is(names: Sequence[str]) -> str:
    return "is" if len(names) == 1 else "are"


def _instant(text: str | None) -> datetime | None:
    if text is None:
        return None
    found = parse_since(text)
    if not isinstance(found, datetime):
        raise typer.BadParameter(
            "give a time such as 2026-01-31T12:00; for how much longer is --for", param_hint="--until"
        )
    return found
