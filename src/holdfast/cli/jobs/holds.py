"""The `release` and `extend` commands for held tasks."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Annotated

import typer

from .. import output
from ..options import JobRefArgument, JsonOption, open_client
from ..quantities import format_duration, format_local_time, parse_duration, parse_since, utc_now

if TYPE_CHECKING:
    from holdfast.api.jobs import Event, JobDetail, ListedJob, TaskHold

TaskNameArgument = Annotated[
    str | None, typer.Argument(metavar="TASK", help="A held task: worker-0. Default: all held tasks.")
]


def release(job: JobRefArgument, task: TaskNameArgument = None, json: JsonOption = False) -> None:
    """Release held tasks: they end and free their resources."""
    with open_client() as client:
        released = client.release_hold(job, task)
    if json:
        output.emit_json(released)
        return
    names = ", ".join(map(output.escape, released.released))
    output.emit_line(f"Released {names} of {output.escape(released.name)} ({released.id}).")
    output.print_hint(f"holdfast show {released.id}", f"holdfast rerun {released.id} --hold")


def extend(
    job: JobRefArgument,
    task: TaskNameArgument = None,
    longer: Annotated[
        str | None,
        typer.Option("--for", metavar="TIME", help="Extend the hold by: 12h, 3d. Default: the default hold time."),
    ] = None,
    until: Annotated[str | None, typer.Option(metavar="TIME", help="Extend the hold until: 2026-01-31T12:00.")] = None,
    files_only: Annotated[
        bool, typer.Option("--files-only", help="End the processes and free the resources; hold only the files.")
    ] = False,
    json: JsonOption = False,
) -> None:
    """Extend the hold on failed tasks, or hold only their files."""
    if longer is not None and until is not None:
        raise typer.BadParameter("--for and --until cannot be used together")
    with open_client() as client:
        seconds = parse_duration(longer) if longer is not None else None
        changed = client.extend_hold(job, task, longer=seconds, until=_parse_until(until), files_only=files_only)
    if json:
        output.emit_json(changed)
        return
    for each in changed.tasks:
        output.emit_line(f"{output.escape(each.task)} is held {format_hold(each, utc_now())}.")
    output.print_hint(f"holdfast ssh {changed.job}", f"holdfast release {changed.job}")


def format_hold(held: TaskHold, now: datetime) -> str:
    """Format as until 2026-01-31 12:00:00, 6d23h left; files only."""
    kept = "files only" if held.keep == "files" else "with processes and resources"
    return f"until {format_local_time(held.until)}, {format_time_left(held.until, now)}; {kept}"


def format_refused_hold(job: JobDetail, events: Sequence[Event]) -> str:
    """Return why a task is not held, such as main-0: ann has 10 held tasks, …; empty if it does not matter."""
    messages = [event.message for event in events if event.kind == "not-held" and event.attempt == job.attempt]
    if not messages or str(job.state) == "Succeeded":
        return ""
    first = messages[0].replace(" was not put on hold: ", ": ", 1)
    return first if len(messages) == 1 else f"{first} (and {len(messages) - 1} more: holdfast events {job.id})"


def build_rerun_command(job: JobDetail) -> str:
    """Return the command to rerun a failed job, with --hold if it was not held before."""
    was_held = any(task.held for task in job.tasks)
    return f"holdfast rerun {job.id}" if was_held else f"holdfast rerun {job.id} --hold"


def format_time_left(until: datetime, now: datetime) -> str:
    return f"{format_duration(max(0.0, (until - now).total_seconds()))} left"


def format_job_message(job: ListedJob, now: datetime) -> str:
    """Return the message of a job for a list, or where its debugger waits."""
    if job.debugger:
        return f"debugger waiting at {job.debugger}"
    if job.held_until is None:
        return "" if job.message == job.state else job.message
    return f"{job.message}, {format_time_left(job.held_until, now)}"


def _parse_until(text: str | None) -> datetime | None:
    if text is None:
        return None
    found = parse_since(text)
    if not isinstance(found, datetime):
        raise typer.BadParameter("must be a time (2026-01-31T12:00); for a duration, use --for", param_hint="--until")
    return found
