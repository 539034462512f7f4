"""`holdfast logs`: what a task wrote, byte for byte."""

from __future__ import annotations

from contextlib import ExitStack
from typing import TYPE_CHECKING, Annotated

import typer

from .. import output
from ..options import JobRef, Json, connect
from ..quantities import parse_since
from .debugger_notification import telling_of_debuggers
from .follow import say_whose
from .waiting_notification import telling_why_it_waits

if TYPE_CHECKING:
    from holdfast.sdk import Client


def logs(
    job: JobRef,
    task: Annotated[
        str | None,
        typer.Argument(metavar="TASK", help="Which task: worker-0. Default: the one that decided, or the first."),
    ] = None,
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Go on until the task has ended.")] = False,
    tail: Annotated[int | None, typer.Option("--tail", "-n", min=0, help="Begin with the last so many lines.")] = None,
    since: Annotated[str | None, typer.Option(help="Begin with what came since: 10m, 2h or a time.")] = None,
    stdout: Annotated[bool, typer.Option("--stdout", help="Only what was written to stdout.")] = False,
    stderr: Annotated[bool, typer.Option("--stderr", help="Only what was written to stderr.")] = False,
    attempt: Annotated[int | None, typer.Option(min=0, help="Attempt of the job, from 0. Default: the newest.")] = None,
    number: Annotated[int | None, typer.Option("--try", min=0, help="Try of the task within it, from 0.")] = None,
    json: Json = False,
) -> None:
    """Print a task's log exactly as it was written."""
    if stdout and stderr:
        raise typer.BadParameter("choose --stdout or --stderr; without either both are printed")
    if tail is not None and since is not None:
        raise typer.BadParameter("choose --tail or --since")
    if json and follow:
        raise typer.BadParameter("--json prints one object; it does not go with --follow")
    start = parse_since(since) if since else None
    stream = "stdout" if stdout else "stderr" if stderr else None
    with connect() as client:
        if json:
            found = client.log(job, task=task, attempt=attempt, number=number, stream=stream, lines=tail, since=start)
            text = found.data.decode("utf-8", "replace")
            where = {"start": found.start, "end": found.end, "size": found.size, "complete": found.complete}
            output.emit_json({"task": found.task, **where, "text": text})
            return
        if task is None:
            task = _whose(client, job, attempt)
        pieces = client.stream_log(
            job,
            follow=follow,
            task=task,
            attempt=attempt,
            number=number,
            stream=stream,
            lines=tail,
            since=start,
        )
        with ExitStack() as notifications:
            if follow:
                notifications.enter_context(telling_of_debuggers(job))
                notifications.enter_context(telling_why_it_waits(job))
            for piece in pieces:
                output.emit_bytes(piece)


def _whose(client: Client, ref: str, attempt: int | None) -> str | None:
    """The task to show when none is named; says so where there are several."""
    job = client.job(ref)
    if job.task_count == 1 or not job.tasks:
        return None
    task = job.decided_by or job.tasks[0].task
    if attempt not in (None, job.attempt):
        task = client.log(job.id, attempt=attempt, lines=0).task
    say_whose(job, task)
    return task
