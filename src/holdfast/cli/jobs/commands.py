"""Commands for existing jobs: ls, show, stop, rerun, clone, tag, wait, events."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Sequence
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from holdfast.core.errors import UserError

from .. import output
from ..exitcodes import resolve_exit_code
from ..options import Follow, JobRef, JobRefs, Json, Wait, connect, expand_options
from ..quantities import format_duration, format_local_time, format_span, parse_duration, resolve_since, utc_now
from .artifact_messages import format_artifact_lines, list_all_events
from .follow import RESTART_TIMEOUT, print_result, report_submitted, wait_for_end, warn_about_lost_artifacts
from .hold_options import HoldOptions
from .holds import find_refused_hold, format_job_message
from .notification_options import Notify
from .show import show_job

if TYPE_CHECKING:
    from holdfast.sdk import Event, JobDetail, ListedJob
    from holdfast.sdk.jobs import JobFilters

PAGE_SIZE = 20  # jobs per page
COLUMNS = ("ID", "NAME", "STATE", "USER", "GROUP", "AGE", "RAN", "MESSAGE")


def ls(
    mine: Annotated[bool, typer.Option("--mine", help="Only your jobs.")] = False,
    state: Annotated[list[str] | None, typer.Option("--state", "-s", help="Only this state. Repeatable.")] = None,
    group: Annotated[list[str] | None, typer.Option("--group", "-g", help="Only this group. Repeatable.")] = None,
    user: Annotated[str | None, typer.Option(help="Only jobs of this user.")] = None,
    text: Annotated[str | None, typer.Option("--text", "-t", help="Only jobs with this in name or id.")] = None,
    since: Annotated[str | None, typer.Option(help="Only jobs submitted since: 10m, 2d or a time.")] = None,
    limit: Annotated[int, typer.Option("--limit", "-n", min=1, max=500, help="Maximum number of jobs.")] = PAGE_SIZE,
    all: Annotated[bool, typer.Option("--all", "-a", help="List all pages.")] = False,
    more: Annotated[str | None, typer.Option(metavar="CURSOR", help="Continue after an earlier page.")] = None,
    json: Json = False,
) -> None:
    """List jobs, newest first."""
    from holdfast.sdk import Page
    from holdfast.sdk.jobs import JobFilters

    filters = JobFilters(
        mine=mine,
        states=[name.strip().capitalize() for text in state or () for name in text.split(",")],
        groups=[name.strip() for text in group or () for name in text.split(",")],
        user=user,
        text=text,
        after=resolve_since(since, utc_now()) if since else None,
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
    options = _format_filters(filters)
    if not page.items and (options or more):
        output.print_note("No matching jobs.")
        return
    rows = [list(_build_cells(job, now).values()) for job in page.items]
    same = ["USER"] if len({job.user for job in page.items}) <= 1 else []  # the same in each row
    output.print_table(COLUMNS, rows, cut=("NAME", "MESSAGE"), drop=[*same, "GROUP", "RAN", "AGE"])
    _suggest_next(page.items, page.next, options + (["--limit", str(limit)] if limit != PAGE_SIZE else []))


def _format_filters(filters: JobFilters) -> list[str]:
    """Return the filters as options, for the command that lists the next page."""
    words = ["--mine"] if filters.get("mine") else []
    for option, values in (("--state", filters.get("states")), ("--group", filters.get("groups"))):
        words += [word for value in values or () for word in (option, value)]
    after = filters.get("after")
    since = after.isoformat(timespec="seconds") if after else None
    for option, text in (("--user", filters.get("user")), ("--text", filters.get("text")), ("--since", since)):
        words += [option, text] if text else []
    return words


def _build_cells(job: ListedJob, now: datetime) -> dict[str, object]:
    return {
        "ID": job.id,
        "NAME": job.name,
        "STATE": output.build_state_cell(job.state, job.stopping),
        "USER": job.user,
        "GROUP": job.group,
        "AGE": format_duration((now - job.submitted_at).total_seconds()),
        "RAN": format_span(job.started_at, job.finished_at, now),
        "MESSAGE": format_job_message(job, now),
    }


def _suggest_next(items: tuple[ListedJob, ...], cursor: str | None, options: Sequence[str]) -> None:
    debugged = [f"holdfast debug {job.id}" for job in items if job.debugger][:1]
    if cursor:
        command = shlex.join(["holdfast", "ls", *(output.escape(word) for word in options)])
        output.print_hint(*debugged, f"{command} --more {cursor}", f"{command} --all")
    elif debugged:
        output.print_hint(*debugged)
    elif items and str(items[0].state) == "Held":
        output.print_hint(f"holdfast ssh {items[0].id}", f"holdfast release {items[0].id}")
    elif items:
        command = "why" if str(items[0].state) in ("Failed", "Pending") else "show"
        output.print_hint(f"holdfast {command} {items[0].id}", f"holdfast logs {items[0].id}")
    else:
        output.print_hint("holdfast submit FILE", "holdfast submit -- echo hello")


def show(
    job: JobRef,
    attempts: Annotated[bool, typer.Option("--attempts", help="Show all attempts, not only the current one.")] = False,
    json: Json = False,
) -> None:
    """Show the details of a job."""
    with connect() as client:
        found = client.job(job)
        tries = client.attempts(found.id) if attempts else ()
        events = [] if json else list_all_events(client, found.id)
        ended = found.state.final or str(found.state) == "Held"
        why = client.why(found.id) if ended and not json else None
    if json:
        output.emit_json({"job": found, "attempts": tries} if attempts else found)
        return
    warnings = dict.fromkeys(event.message for event in events if event.kind == "warning")  # each once for all tasks
    show_job(found, tries, list(warnings), format_artifact_lines(events), find_refused_hold(found, events), why)


def stop(
    jobs: JobRefs,
    wait: Annotated[bool, typer.Option("--wait", help="Wait until the jobs have ended.")] = False,
    json: Json = False,
) -> None:
    """Stop one or more jobs."""
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
        for stopped in found:
            output.emit(f"{stopped.id} {_describe_stop(stopped)}")
        for failure in report.failed:
            message = output.escape(failure.error.message or "cannot stop this job")
            output.print_note(f"{output.escape(failure.job)}: {message}", "red")
    if report.failed:
        raise typer.Exit(1)
    running = [job.id for job in found if not job.state.final]
    if running:
        output.print_hint(f"holdfast wait {running[0]}")


def _describe_stop(job: JobDetail) -> str:
    if not job.state.final:
        return "is stopping"
    return f"{'stopped' if job.stop else 'had already ended'} ({str(job.state).lower()})"


@expand_options
def rerun(
    job: JobRef,
    *,
    hold: HoldOptions,
    notify: Notify = None,
    follow: Follow = False,
    wait: Wait = False,
    json: Json = False,
) -> None:
    """Submit a job again as a new job."""
    hold_value = hold.build_value()
    with connect() as client:
        sent = client.rerun(job, hold=hold_value, notify=notify)
        report_submitted(client, sent, follow=follow, wait=wait, json=json, again="again ")
    output.print_hint(f"holdfast logs -f {sent.id}")


def tag(
    job: JobRef,
    tags: Annotated[list[str], typer.Argument(help="One or more tags, without commas.", show_default=False)],
    remove: Annotated[bool, typer.Option("--remove", "-r", help="Remove the tags.")] = False,
    json: Json = False,
) -> None:
    """Add tags to a job, or remove them."""
    with connect() as client:
        id = client.job(job).id
        for each in tags:
            changed = client.untag(id, each) if remove else client.tag(id, each)
    if json:
        output.emit_json(changed)
    else:
        words = ", ".join(map(output.escape, changed.tags)) or "none"
        output.print_note(f"Tags of {output.escape(changed.name)} ({changed.id}): {words}")


def clone(
    job: JobRef,
    to: Annotated[Path | None, typer.Option("--output", "-o", help="Write to this file. Default: stdout.")] = None,
    source: Annotated[bool, typer.Option("--source", help="Print the job file as submitted.")] = False,
    force: Annotated[bool, typer.Option("--force", help="Overwrite an existing file.")] = False,
    json: Json = False,
) -> None:
    """Print the job file of a job, to edit and submit again.

    Secrets are masked: enter them again.
    """
    with connect() as client:
        text = client.job_source(job) if source else client.job_yaml(job)
    if to is not None:
        _write_job_file(to, text, force)
        output.print_note(f"Wrote {to}.")
        output.print_hint(f"holdfast plan {to}", f"holdfast submit {to}")
    elif json:
        output.emit_json({"source" if source else "yaml": text})
    else:
        output.emit_bytes(text.encode("utf-8", "backslashreplace"))


def _write_job_file(path: Path, text: str, force: bool) -> None:
    try:
        with path.open("w" if force else "x", encoding="utf-8") as file:
            file.write(text)
    except FileExistsError:
        raise UserError(f"{path} already exists", hint="Choose another name, or add --force to overwrite it.") from None
    except OSError as error:
        raise UserError(f"Cannot write {path}: {error.strerror}") from None


def wait(
    job: JobRef,
    timeout: Annotated[str | None, typer.Option(help="Maximum time to wait: 30s, 10m.")] = None,
    json: Json = False,
) -> None:
    """Wait until a job ends; exit with its exit code."""
    seconds = parse_duration(timeout) if timeout else None
    with connect() as client:
        found = client.job(job)
        client.patience = RESTART_TIMEOUT
        ended = wait_for_end(client, found.id, timeout=seconds)
        if json:
            output.emit_json(ended)
        else:
            print_result(ended)
            warn_about_lost_artifacts(client, ended)
    raise typer.Exit(resolve_exit_code(ended))


def events(
    job: JobRef,
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Print new events as they arrive.")] = False,
    json: Json = False,
) -> None:
    """Show the events of a job.

    With --json, prints one event per line.
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

        from holdfast.sdk.json_conversion import to_json

        output.emit(encoder.dumps(to_json(event)))
        return
    about = f" {output.escape(event.task)}" if event.task else ""
    by = f" ({output.escape(event.actor)})" if event.actor not in ("", "holdfast") else ""
    kind = output.style_text(output.escape(event.kind), "bold", sys.stdout)
    output.emit(f"{format_local_time(event.at)}  {kind}{about}: {output.escape(event.message)}{by}")
