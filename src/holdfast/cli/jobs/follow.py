"""Following a job: its log across attempts, and its result."""

from __future__ import annotations

import sys
from contextlib import suppress
from typing import TYPE_CHECKING

import typer

from holdfast.core.errors import HoldfastError

from .. import output
from ..exitcodes import resolve_exit_code
from ..quantities import format_span, utc_now
from .artifact_messages import warn_about_unsaved_artifacts
from .blocker_notification import print_blockers_in_background
from .debugger_notification import print_debuggers_in_background
from .holds import build_rerun_command, format_time_left

if TYPE_CHECKING:
    from holdfast.sdk import Client, JobDetail, JobSummary, SubmittedJob, Task

POLL_INTERVAL = 1.0  # seconds between checks for the next attempt
RESTART_TIMEOUT = 60.0  # seconds to wait for a restarting server


def report_submitted_job(
    client: Client, job: SubmittedJob, *, follow: bool, wait: bool, json: bool, again: str = ""
) -> None:
    """Print a submitted job and its warnings, and follow it or wait for it, if requested."""
    if not json or follow:
        output.print_note(f"Submitted {output.escape(job.name)} {again}as {job.id}.", "bold")
    for warning in job.warnings:
        output.print_warning(warning)
    if follow or wait:
        follow_job(client, job, follow=follow, json=json)
    if json:
        output.emit_json(job)
    elif not output.is_terminal(sys.stdout):
        output.emit_line(job.id)


def follow_job(client: Client, job: JobSummary, *, follow: bool, json: bool) -> None:
    """Wait until the job ends, with its log if `follow`; exit with the job's exit code."""
    client.retry_timeout = RESTART_TIMEOUT  # it answered before, so it is probably restarting
    if follow:
        with print_debuggers_in_background(job.id), print_blockers_in_background(job.id):
            ended = follow_log(client, job.id)
    else:
        ended = wait_for_end(client, job.id)
    if json:
        output.emit_json(ended)
    else:
        print_result(ended)
        try_warn_about_unsaved_artifacts(client, ended)
        if follow and str(ended.state) == "Failed" and ended.decided_by not in (None, *_list_first_task(ended)):
            output.print_note(f"Log of {output.escape(ended.decided_by)}: holdfast logs {ended.id} {ended.decided_by}")
    raise typer.Exit(resolve_exit_code(ended))


def _list_first_task(job: JobDetail) -> list[str]:
    return [task.task for task in job.tasks[:1]]


def follow_log(client: Client, job_id: str) -> JobDetail:
    """Print the log of the first task, try by try, until the job has ended or is held; return the job."""
    seen: set[tuple[int, int]] = set()
    while True:
        job = client.get_job(job_id)
        if not seen and job.task_count > 1 and job.tasks:
            print_log_heading(job, job.tasks[0].task)
        new = _find_new_tries(client, job, seen)
        for task in new:
            seen.add(_get_try_key(task))
            _print_try_log(client, job_id, task)
        if new:
            continue
        if job.state.final or str(job.state) == "Held":
            return job
        client.wait_for_job(job_id, timeout=POLL_INTERVAL)


def print_log_heading(job: JobDetail, task: str) -> None:
    """Print on stderr which of several tasks the log belongs to."""
    text = f"Log of {output.escape(task)}, one of {job.task_count} tasks; list them with `holdfast show {job.id}`"
    output.print_note(text, "dim")


def _find_new_tries(client: Client, job: JobDetail, seen: set[tuple[int, int]]) -> list[Task]:
    """Return new tries of the first task, oldest first; short ones may have ended between two checks."""
    if not job.tasks or _get_try_key(job.tasks[0]) in seen:
        return []
    newest = job.tasks[0]
    if _get_try_key(newest) == (0, 0):
        return [newest]
    known = [task for attempt in client.list_attempts(job.id) for task in attempt.tasks if task.task == newest.task]
    tries = {_get_try_key(task): task for task in [*known, newest]}
    return [tries[key] for key in sorted(tries) if key not in seen]


def _get_try_key(task: Task) -> tuple[int, int]:
    return task.attempt, task.number


def _print_try_log(client: Client, job_id: str, task: Task) -> None:
    from holdfast.sdk import ApiError

    last = b""
    try:
        for piece in client.stream_log(job_id, follow=True, task=task.task, attempt=task.attempt, number=task.number):
            output.emit_bytes(piece)
            last = piece or last
    except ApiError as error:
        if error.code != "no_log":  # ended before it wrote anything
            raise
    if last and not last.endswith(b"\n") and output.is_terminal(sys.stdout):
        output.emit_line()  # start the next message on a new line; files get only the bytes of the log


def wait_for_end(client: Client, ref: str, *, timeout: float | None = None) -> JobDetail:
    """Return the job once it has ended, is held, or the timeout has expired; show its state while it waits."""
    import time

    end = None if timeout is None else time.monotonic() + timeout
    with output.show_progress("Waiting") as progress:
        while True:
            left = None if end is None else max(0.0, end - time.monotonic())
            job = client.wait_for_job(ref, timeout=2.0 if left is None else min(2.0, left))
            if job.state.final or str(job.state) == "Held" or (end is not None and time.monotonic() >= end):
                return client.get_job(job.id)
            progress.update(f"{job.name}: {job.state} {format_span(job.submitted_at, None, utc_now())} {job.message}")


def try_warn_about_unsaved_artifacts(client: Client, job: JobDetail) -> None:
    """Warn about artifacts that were not kept; ignore errors, since the job has ended."""
    with suppress(HoldfastError):
        warn_about_unsaved_artifacts(client, job.id)


def print_result(job: JobDetail) -> None:
    took = format_span(job.started_at, job.finished_at, utc_now())
    style = "green" if str(job.state) == "Succeeded" else "yellow" if not job.state.final else "red"
    why = f": {output.escape(job.message)}" if job.message and job.message != str(job.state) else ""
    text = f"{output.escape(job.name)} ({job.id}) {str(job.state).lower()}{f' after {took}' if took else ''}{why}"
    left = f", {format_time_left(job.held_until, utc_now())}" if job.held_until else ""
    output.print_note(text + left, style)
    if str(job.state) == "Held":
        output.print_hint(f"holdfast ssh {job.id}", f"holdfast logs {job.id}", f"holdfast release {job.id}")
    elif str(job.state) == "Failed":
        output.print_hint(f"holdfast why {job.id}", f"holdfast logs {job.id}", build_rerun_command(job))
