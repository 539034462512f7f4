"""Commands about jobs that exist: ls, show, stop, rerun, clone, wait, events."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Sequence
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from .. import output
from ..exitcodes import exit_code_of
from ..options import Follow, JobRef, JobRefs, Json, Wait, connect
from ..quantities import parse_duration, show_duration, show_instant, show_span, since_instant, utc_now
from .artifact_messages import all_events, artifact_lines
from .follow import RESTART_TIMEOUT, say_end, say_lost, stay, wait_for_end
from .hold_options import Hold, HoldFiles, HoldFor, hold_word
from .holds import refused_hold, with_time_left
from .notification_options import Notify
from .show import show_job

if TYPE_CHECKING:
    from holdfast.sdk import Event, JobDetail, ListedJob
    from holdfast.sdk.jobs import JobFilters

PAGE = 20  # jobs listed at once
COLUMNS = ("ID", "NAME", "STATE", "USER", "GROUP", "AGE", "RAN", "MESSAGE")


def ls(
    mine: Annotated[bool, typer.Option("--mine", help="Only jobs I submitted.")] = False,
    state: Annotated[
        list[str] | None, typer.Option("--state", "-s", help="Only jobs in this state; may be repeated.")
    ] = None,
    group: Annotated[
        list[str] | None, typer.Option("--group", "-g", help="Only jobs of this group; may be repeated.")
    ] = None,
    user: Annotated[str | None, typer.Option(help="Only jobs of this user.")] = None,
    text: Annotated[str | None, typer.Option("--text", "-t", help="Part of the name or the id.")] = None,
    since: Annotated[str | None, typer.Option(help="Submitted since: 10m, 2d or a time.")] = None,
    limit: Annotated[int, typer.Option("--limit", "-n", min=1, max=500, help="How many at most.")] = PAGE,
    all: Annotated[bool, typer.Option("--all", "-a", help="Every page.")] = False,
    more: Annotated[str | None, typer.Option(metavar="CURSOR", help="Go on after an earlier page.")] = None,
    json: Json = False,
) -> None:
    """List jobs, newest first."""
    from holdfast.sdk import Page
    from holdfast.sdk.jobs import JobFilters

    filters = JobFilters(
        mine=mine,
        states=[one.strip().capitalize() for part in state or () for one in part.split(",")],
        groups=[one.strip() for part in group or () for one in part.split(",")],
        user=user,
        text=text,
        after=since_instant(since, utc_now()) if since else None,
    )
    with connect() as client:
        if all:
            page = Page(items=tuple(client.iter_jobs(**filters)))
        else:
            page = client.jobs(limit=limit, cursor=more, **filters)
    if json:
        output.emit_json(page)
        return
    now = utc_now()
    asked = _words(filters)
    if not page.items and (asked or more):
        output.note("Nothing matches.")
        return
    rows = [list(_cells(job, now).values()) for job in page.items]
    same = ["USER"] if len({job.user for job in page.items}) <= 1 else []  # says nothing then
    output.table(COLUMNS, rows, cut=("NAME", "MESSAGE"), drop=[*same, "GROUP", "RAN", "AGE"])
    _say_more(page.items, page.next, asked + (["--limit", str(limit)] if limit != PAGE else []))


def _words(filters: JobFilters) -> list[str]:
    """The filters as they would be written, to go on with the next page."""
    words = ["--mine"] if filters.get("mine") else []
    for option, values in (("--state", filters.get("states")), ("--group", filters.get("groups"))):
        words += [word for value in values or () for word in (option, value)]
    after = filters.get("after")
    since = after.isoformat(timespec="seconds") if after else None
    for option, text in (("--user", filters.get("user")), ("--text", filters.get("text")), ("--since", since)):
        words += [option, text] if text else []
    return words


def _cells(job: ListedJob, now: datetime) -> dict[str, object]:
    return {
        "ID": job.id,
        "NAME": job.name,
        "STATE": output.state_cell(job.state, job.stopping),
        "USER": job.user,
        "GROUP": job.group,
        "AGE": show_duration((now - job.submitted_at).total_seconds()),
        "RAN": show_span(job.started_at, job.finished_at, now),
        "MESSAGE": with_time_left(job, now),
    }


def _say_more(items: tuple[ListedJob, ...], cursor: str | None, asked: Sequence[str]) -> None:
    debugged = [f"holdfast debug {job.id}" for job in items if job.debugger][:1]
    if cursor:
        again = shlex.join(["holdfast", "ls", *(output.safe(word) for word in asked)])
        output.hint(*debugged, f"{again} --more {cursor}", f"{again} --all")
    elif debugged:
        output.hint(*debugged)
    elif items and str(items[0].state) == "Held":
        output.hint(f"holdfast ssh {items[0].id}", f"holdfast release {items[0].id}")
    elif items:
        look = "why" if str(items[0].state) in ("Failed", "Pending") else "show"
        output.hint(f"holdfast {look} {items[0].id}", f"holdfast logs {items[0].id}")
    else:
        output.hint("holdfast submit FILE", "holdfast submit -- echo hello")


def show(
    job: JobRef,
    attempts: Annotated[bool, typer.Option("--attempts", help="Every attempt, not just the current one.")] = False,
    json: Json = False,
) -> None:
    """Show everything about a job."""
    with connect() as client:
        found = client.job(job)
        tries = client.attempts(found.id) if attempts else ()
        told = [] if json else all_events(client, found.id)
        over = found.state.final or str(found.state) == "Held"
        why = client.why(found.id) if over and not json else None
    if json:
        output.emit_json({"job": found, "attempts": tries} if attempts else found)
        return
    warnings = dict.fromkeys(event.message for event in told if event.kind == "warning")  # each once, for all its tasks
    show_job(found, tries, list(warnings), artifact_lines(told), refused_hold(found, told), why)


def stop(
    jobs: JobRefs,
    wait: Annotated[bool, typer.Option("--wait", help="Wait until they have ended.")] = False,
    json: Json = False,
) -> None:
    """Stop jobs."""
    with connect() as client:
        report = client.stop_many(jobs)
        if wait:
            client.patience = RESTART_TIMEOUT
            for job in report.stopped:
                client.wait(job, through_hold=True)
        found = () if json else tuple(client.job(job) for job in report.stopped)
    if json:
        output.emit_json(report)
    else:
        for one in found:
            output.emit(f"{one.id} {_stopped(one)}")
        for failure in report.failed:
            message = output.safe(failure.error.message or "cannot be stopped")
            output.note(f"{output.safe(failure.job)}: {message}", "red")
    if report.failed:
        raise typer.Exit(1)
    going = [one.id for one in found if not one.state.final]
    if going:
        output.hint(f"holdfast wait {going[0]}")


def _stopped(job: JobDetail) -> str:
    if not job.state.final:
        return "is asked to stop"
    return f"{'has ended' if job.stop else 'had ended before'} ({str(job.state).lower()})"


def rerun(
    job: JobRef,
    hold: Hold = None,
    hold_for: HoldFor = None,
    hold_files: HoldFiles = False,
    notify: Notify = None,
    follow: Follow = False,
    wait: Wait = False,
    json: Json = False,
) -> None:
    """Submit the same job anew."""
    keep = hold_word(hold, hold_for, hold_files)
    with connect() as client:
        sent = client.rerun(job, hold=keep, notify=notify)
        if not json or follow:
            output.note(f"Submitted {output.safe(sent.name)} again as {sent.id}.", "bold")
        for warning in sent.warnings:
            output.note(f"warning: {output.safe(warning)}", "yellow")
        if follow or wait:
            stay(client, sent, follow=follow, json=json)
    if json:
        output.emit_json(sent)
    elif not output.is_terminal(sys.stdout):
        output.emit(sent.id)
    output.hint(f"holdfast logs -f {sent.id}")


def tag(
    job: JobRef,
    tags: Annotated[list[str], typer.Argument(help="One or more words, without commas.", show_default=False)],
    remove: Annotated[bool, typer.Option("--remove", "-r", help="Take them away instead.")] = False,
    json: Json = False,
) -> None:
    """Mark a job with words of your own."""
    with connect() as client:
        id = client.job(job).id
        for each in tags:
            changed = client.untag(id, each) if remove else client.tag(id, each)
    if json:
        output.emit_json(changed)
    else:
        words = ", ".join(map(output.safe, changed.tags)) or "none"
        output.note(f"Tags of {output.safe(changed.name)} ({changed.id}): {words}")


def clone(
    job: JobRef,
    to: Annotated[Path | None, typer.Option("--output", "-o", help="Write it to this file.")] = None,
    source: Annotated[bool, typer.Option("--source", help="As it was submitted, in its own dialect.")] = False,
    force: Annotated[bool, typer.Option("--force", help="Replace a file that exists.")] = False,
    json: Json = False,
) -> None:
    """Print a job's file, to change and submit again.

    Secrets are masked: fill them in anew.
    """
    with connect() as client:
        text = client.job_source(job) if source else client.job_yaml(job)
    if to is not None:
        _write(to, text, force)
        output.note(f"Written to {to}.")
        output.hint(f"holdfast plan {to}", f"holdfast submit {to}")
    elif json:
        output.emit_json({"source" if source else "yaml": text})
    else:
        output.emit_bytes(text.encode("utf-8", "backslashreplace"))


def _write(path: Path, text: str, force: bool) -> None:
    from holdfast.core.errors import UserError

    try:
        with path.open("w" if force else "x", encoding="utf-8") as file:
            file.write(text)
    except FileExistsError:
        raise UserError(f"{path} exists", hint="Choose another name, or add --force to replace it.") from None
    except OSError as error:
        raise UserError(f"Cannot write {path}: {error.strerror}") from None


def wait(
    job: JobRef,
    timeout: Annotated[str | None, typer.Option(help="Wait no longer than this: 30s, 10m.")] = None,
    json: Json = False,
) -> None:
    """Wait for a job's end, and end with its exit code."""
    seconds = parse_duration(timeout) if timeout else None
    with connect() as client:
        found = client.job(job)
        client.patience = RESTART_TIMEOUT
        ended = wait_for_end(client, found.id, timeout=seconds)
        if json:
            output.emit_json(ended)
        else:
            say_end(ended)
            say_lost(client, ended)
    raise typer.Exit(exit_code_of(ended))


def events(
    job: JobRef,
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Print events as they come.")] = False,
    json: Json = False,
) -> None:
    """Show what happened to a job, and why.

    With --json one event per line.
    """
    with connect() as client:
        if follow:
            for event in client.follow_events(job):
                _print_event(event, json)
            return
        after: int | None = None
        while True:
            page = client.events(job, after=after)
            for event in page.items:
                _print_event(event, json)
            if page.next is None or not page.items:
                return
            after = page.next


def _print_event(event: Event, json: bool) -> None:
    if json:
        import json as encoder

        from holdfast.sdk.reading import dump

        output.emit(encoder.dumps(dump(event)))
        return
    about = f" {output.safe(event.task)}" if event.task else ""
    by = f" ({output.safe(event.actor)})" if event.actor not in ("", "holdfast") else ""
    kind = output.styled(output.safe(event.kind), "bold", sys.stdout)
    output.emit(f"{show_instant(event.at)}  {kind}{about}: {output.safe(event.message)}{by}")
