"""Staying with a job: its log as it comes, across its attempts, and its end."""

from __future__ import annotations

from typing import TYPE_CHECKING

import typer

from . import output
from .exitcodes import exit_code_of
from .quantities import show_span, utc_now

if TYPE_CHECKING:
    from holdfast.sdk import Client, JobDetail, JobSummary

BETWEEN_TRIES = 1.0  # seconds between looks for the next attempt
RESTART_PATIENCE = 60.0  # seconds for a server that is being restarted


def stay(client: Client, job: JobSummary, *, follow: bool, json: bool) -> None:
    """Wait for the end, with the log or without; ends the command with the job's exit code."""
    client.patience = RESTART_PATIENCE  # it answered before, so it is worth waiting for
    if follow:
        follow_log(client, job.id)
    ended = wait_for_end(client, job.id)
    if json:
        output.emit_json(ended)
    else:
        say_end(ended)
    raise typer.Exit(exit_code_of(ended))


def follow_log(client: Client, job_id: str) -> None:
    """The first task's log on stdout, one try after the other, until the job has ended or is held."""
    from holdfast.sdk import ApiError

    seen: set[tuple[int, int]] = set()
    while True:
        job = client.job(job_id)
        first = job.tasks[0] if job.tasks else None
        if first is not None and (first.attempt, first.number) not in seen:
            seen.add((first.attempt, first.number))
            try:
                write_log(client, job_id, task=first.task, attempt=first.attempt, number=first.number)
            except ApiError as error:
                if error.code != "no_log":
                    raise
            continue
        if job.state.final or str(job.state) == "Held":
            return
        client.wait(job_id, timeout=BETWEEN_TRIES)


def write_log(client: Client, ref: str, *, task: str, attempt: int, number: int) -> None:
    for piece in client.stream_log(ref, follow=True, task=task, attempt=attempt, number=number):
        output.emit_bytes(piece)


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


def say_end(job: JobDetail) -> None:
    took = show_span(job.started_at, job.finished_at, utc_now())
    style = "green" if str(job.state) == "Succeeded" else "yellow" if not job.state.final else "red"
    why = f": {output.safe(job.message)}" if job.message and job.message != str(job.state) else ""
    text = f"{output.safe(job.name)} ({job.id}) {str(job.state).lower()}{f' after {took}' if took else ''}{why}"
    output.note(text, style)
    if str(job.state) in ("Failed", "Held"):
        output.hint(f"holdfast show {job.id}", f"holdfast logs {job.id}", f"holdfast rerun {job.id}")
