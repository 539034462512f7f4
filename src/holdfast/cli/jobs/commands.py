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
from ..options import FollowOption, JobRefArgument, JobRefsArgument, JsonOption, WaitOption, expand_options, open_client
from ..quantities import format_duration, format_local_time, format_span, parse_duration, resolve_since, utc_now
from .artifact_messages import format_artifact_lines, list_all_events
from .follow import RESTART_TIMEOUT, print_result, report_submitted_job, try_warn_about_unsaved_artifacts, wait_for_end
from .hold_options import HoldOptions
from .holds import format_job_message, format_refused_hold
from .notification_options import NotifyOption
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
    json: JsonOption = False,
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
    with open_client() as client:
        if all:
            page = Page(items=tuple(client.iter_jobs(**filters)))
        else:
            page = client.list_jobs(limit=limit, cursor=more, **filters)
    if json:
        output.emit_json(page)
        return
    now = utc_now()
    options = _build_filter_options(filters)
    if not page.items and (options or more):
        output.print_note("No matching jobs.")
        return
    rows = [list(_build_cells(job, now).values()) for job in page.items]
    same = ["USER"] if len({job.user for job in page.items}) <= 1 else []  # the same in each row
    output.emit_table(COLUMNS, rows, cut=("NAME", "MESSAGE"), drop=[*same, "GROUP", "RAN", "AGE"])
    _print_next_commands(page.items, page.next, options + (["--limit", str(limit)] if limit != PAGE_SIZE else []))


def _build_filter_options(filters: JobFilters) -> list[str]:
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


def _print_next_commands(items: tuple[ListedJob, ...], cursor: str | None, options: Sequence[str]) -> None:
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
    job: JobRefArgument,
    attempts: Annotated[bool, typer.Option("--attempts", help="Show all attempts, not only the current one.")] = False,
    json: JsonOption = False,
) -> None:
    """Show the details of a job."""
    with open_client() as client:
        found = client.get_job(job)
        tries = client.list_attempts(found.id) if attempts else ()
        events = [] if json else list_all_events(client, found.id)
        ended = found.state.final or str(found.state) == "Held"
        why = client.explain_job(found.id) if ended and not json else None
    if json:
        output.emit_json({"job": found, "attempts": tries} if attempts else found)
        return
    warnings = dict.fromkeys(event.message for event in events if event.kind == "warning")  # each once for all tasks
    show_job(found, tries, list(warnings), format_artifact_lines(events), format_refused_hold(found, events), why)


def stop(
    jobs: JobRefsArgument,
    wait: Annotated[bool, typer.Option("--wait", help="Wait until the jobs have ended.")] = False,
    json: JsonOption = False,
) -> None:
    """Stop one or more jobs."""
    with open_client() as client:
        report = client.stop_jobs(jobs)
        if wait:
            client.retry_timeout = RESTART_TIMEOUT
            for job in report.stopped:
                client.wait_for_job(job, through_hold=True)
        found = () if json else tuple(client.get_job(job) for job in report.stopped)
    if json:
        output.emit_json(report)
    else:
        for stopped in found:
            output.emit_line(f"{stopped.id} {_describe_stop(stopped)}")
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
    job: JobRefArgument,
    *,
    hold: HoldOptions,
    notify: NotifyOption = None,
    follow: FollowOption = False,
    wait: WaitOption = False,
    json: JsonOption = False,
) -> None:
    """Submit a job again as a new job."""
    hold_value = hold.build_hold_parameter()
    with open_client() as client:
        sent = client.rerun_job(job, hold=hold_value, notify=notify)
        report_submitted_job(client, sent, follow=follow, wait=wait, json=json, again="again ")
    output.print_hint(f"holdfast logs -f {sent.id}")


def tag(
    job: JobRefArgument,
    tags: Annotated[list[str], typer.Argument(help="One or more tags, without commas.", show_default=False)],
    remove: Annotated[bool, typer.Option("--remove", "-r", help="Remove the tags.")] = False,
    json: JsonOption = False,
) -> None:
    """Add tags to a job, or remove them."""
    with open_client() as client:
        id = client.get_job(job).id
        for each in tags:
            changed = client.remove_tag(id, each) if remove else client.add_tag(id, each)
    if json:
        output.emit_json(changed)
    else:
        words = ", ".join(map(output.escape, changed.tags)) or "none"
        output.print_note(f"Tags of {output.escape(changed.name)} ({changed.id}): {words}")


def clone(
    job: JobRefArgument,
    to: Annotated[Path | None, typer.Option("--output", "-o", help="Write to this file. Default: stdout.")] = None,
    source: Annotated[bool, typer.Option("--source", help="Print the job file as submitted.")] = False,
    force: Annotated[bool, typer.Option("--force", help="Overwrite an existing file.")] = False,
    json: JsonOption = False,
) -> None:
    """Print the job file of a job, to edit and submit again.

    Secrets are masked: enter them again.
    """
    with open_client() as client:
        text = client.get_job_source(job) if source else client.get_job_yaml(job)
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
    job: JobRefArgument,
    timeout: Annotated[str | None, typer.Option(help="Maximum time to wait: 30s, 10m.")] = None,
    json: JsonOption = False,
) -> None:
    """Wait until a job ends; exit with its exit code."""
    seconds = parse_duration(timeout) if timeout else None
    with open_client() as client:
        found = client.get_job(job)
        client.retry_timeout = RESTART_TIMEOUT
        ended = wait_for_end(client, found.id, timeout=seconds)
        if json:
            output.emit_json(ended)
        else:
            print_result(ended)
            try_warn_about_unsaved_artifacts(client, ended)
    raise typer.Exit(resolve_exit_code(ended))


def events(
    job: JobRefArgument,
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Print new events as they arrive.")] = False,
    json: JsonOption = False,
) -> None:
    """Show the events of a job.

    With --json, prints one event per line.
    """
    with open_client() as client:
        if follow:
            for event in client.follow_events(job):
                _print_event(event, json)
            return
        after: int | None = None
        while True:
            page = client.list_events(job, after=after)
            for event in page.items:
                _print_event(event, json)
            if page.next is None or not page.items:
                return
            after = page.next


def _print_event(event: Event, json: bool) -> None:
    if json:
        import json as encoder

        from holdfast.sdk.json_conversion import to_json

        output.emit_line(encoder.dumps(to_json(event)))
        return
    about = f" {output.escape(event.task)}" if event.task else ""
    by = f" ({output.escape(event.actor)})" if event.actor not in ("", "holdfast") else ""
    kind = output.style_text(output.escape(event.kind), "bold", sys.stdout)
    output.emit_line(f"{format_local_time(event.at)}  {kind}{about}: {output.escape(event.message)}{by}")
