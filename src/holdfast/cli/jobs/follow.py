"""Staying with a job: its log as it comes, across its attempts, and its end."""

from __future__ import annotations

import sys
from contextlib import suppress
from typing import TYPE_CHECKING

import typer

from holdfast.core.errors import HoldfastError

from .. import output
from ..exitcodes import exit_code_of
from ..quantities import show_span, utc_now
from .artifact_messages import warn_of_artifacts
from .debugger_notification import telling_of_debuggers
from .holds import rerun_words, time_left
from .waiting_notification import telling_why_it_waits

if TYPE_CHECKING:
    from holdfast.sdk import Client, JobDetail, JobSummary, Task

BETWEEN_TRIES = 1.0  # seconds between looks for the next attempt
RESTART_TIMEOUT = 60.0  # seconds for a server that is being restarted


def stay(client: Client, job: JobSummary, *, follow: bool, json: bool) -> None:
    """Wait for the end, with the log or without; ends the command with the job's exit code."""
    client.patience = RESTART_TIMEOUT  # it answered before, so it is worth waiting for
    if follow:
        with telling_of_debuggers(job.id), telling_why_it_waits(job.id):
            ended = follow_log(client, job.id)
    else:
        ended = wait_for_end(client, job.id)
    if json:
        output.emit_json(ended)
    else:
        say_end(ended)
        say_lost(client, ended)
        if follow and str(ended.state) == "Failed" and ended.decided_by not in (None, *_first(ended)):
            output.note(f"log of {output.safe(ended.decided_by)}: holdfast logs {ended.id} {ended.decided_by}")
    raise typer.Exit(exit_code_of(ended))


def _first(job: JobDetail) -> list[str]:
    return [task.task for task in job.tasks[:1]]


def follow_log(client: Client, job_id: str) -> JobDetail:
    """The first task's log on stdout, one try after the other, until the job has ended or is held; returns it then."""
    seen: set[tuple[int, int]] = set()
    while True:
        job = client.job(job_id)
        if not seen and job.task_count > 1 and job.tasks:
            say_whose(job, job.tasks[0].task)
        new = _new_tries(client, job, seen)
        for task in new:
            seen.add(_try_of(task))
            _write_log(client, job_id, task)
        if new:
            continue
        if job.state.final or str(job.state) == "Held":
            return job
        client.wait(job_id, timeout=BETWEEN_TRIES)


def say_whose(job: JobDetail, task: str) -> None:
    """On stderr: the log is that of one task of several."""
    text = f"log of {output.safe(task)}, one of {job.task_count} tasks; `holdfast show {job.id}` lists them"
    output.note(text, "dim")


def _new_tries(client: Client, job: JobDetail, seen: set[tuple[int, int]]) -> list[Task]:
    """Tries of the first task not seen yet, oldest first: short ones may have come and gone between two looks."""
    if not job.tasks or _try_of(job.tasks[0]) in seen:
        return []
    newest = job.tasks[0]
    if _try_of(newest) == (0, 0):
        return [newest]
    known = [task for attempt in client.attempts(job.id) for task in attempt.tasks if task.task == newest.task]
    tries = {_try_of(task): task for task in [*known, newest]}
    return [tries[key] for key in sorted(tries) if key not in seen]


def _try_of(task: Task) -> tuple[int, int]:
    return task.attempt, task.number


def _write_log(client: Client, job_id: str, task: Task) -> None:
    from holdfast.sdk import ApiError

    last = b""
    try:
        for piece in client.stream_log(job_id, follow=True, task=task.task, attempt=task.attempt, number=task.number):
            output.emit_bytes(piece)
            last = piece or last
    except ApiError as error:
        if error.code != "no_log":  # ended before it could write anything
            raise
    if last and not last.endswith(b"\n") and output.is_terminal(sys.stdout):
        output.emit()  # whatever is said next begins a line of its own; a file gets the log's bytes alone


def wait_for_end(client: Client, ref: str, *, timeout: float | None = None) -> JobDetail:
    """The job at its end (or held, or at the timeout); shows meanwhile what it waits for."""
    import time

    end = None if timeout is None else time.monotonic() + timeout
    with output.progress("Waiting") as progress:
        while True:
            left = None if end is None else max(0.0, end - time.monotonic())
            job = client.wait(ref, timeout=2.0 if left is None else min(2.0, left))
            if job.state.final or str(job.state) == "Held" or (end is not None and time.monotonic() >= end):
                return client.job(job.id)
            progress.say(f"{job.name}: {job.state} {show_span(job.submitted_at, None, utc_now())} {job.message}")


def say_lost(client: Client, job: JobDetail) -> None:
    """Artifacts that were not kept. A server that is gone by now changes nothing of how the job ended."""
    with suppress(HoldfastError):
        warn_of_artifacts(client, job.id)


def say_end(job: JobDetail) -> None:
    took = show_span(job.started_at, job.finished_at, utc_now())
    style = "green" if str(job.state) == "Succeeded" else "yellow" if not job.state.final else "red"
    why = f": {output.safe(job.message)}" if job.message and job.message != str(job.state) else ""
    text = f"{output.safe(job.name)} ({job.id}) {str(job.state).lower()}{f' after {took}' if took else ''}{why}"
    left = f", {time_left(job.held_until, utc_now())}" if job.held_until else ""
    output.note(text + left, style)
    if str(job.state) == "Held":
        output.hint(f"holdfast ssh {job.id}", f"holdfast logs {job.id}", f"holdfast release {job.id}")
    elif str(job.state) == "Failed":
        output.hint(f"holdfast why {job.id}", f"holdfast logs {job.id}", rerun_words(job))
