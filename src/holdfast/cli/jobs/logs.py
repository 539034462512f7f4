"""The `logs` command."""

from __future__ import annotations

from contextlib import ExitStack
from typing import TYPE_CHECKING, Annotated

import typer

from .. import output
from ..options import JobRefArgument, JsonOption, open_client
from ..quantities import parse_since
from .blocker_notification import print_blockers_in_background
from .debugger_notification import print_debuggers_in_background
from .follow import print_log_heading

if TYPE_CHECKING:
    from holdfast.sdk import Client


def logs(
    job: JobRefArgument,
    task: Annotated[
        str | None,
        typer.Argument(
            metavar="TASK", help="Task: worker-0. Default: the task that decided the result, else the first."
        ),
    ] = None,
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Follow the log until the task ends.")] = False,
    tail: Annotated[int | None, typer.Option("--tail", "-n", min=0, help="Print only the last N lines.")] = None,
    since: Annotated[str | None, typer.Option(help="Print only output since: 10m, 2h or a time.")] = None,
    stdout: Annotated[bool, typer.Option("--stdout", help="Print only stdout.")] = False,
    stderr: Annotated[bool, typer.Option("--stderr", help="Print only stderr.")] = False,
    attempt: Annotated[int | None, typer.Option(min=0, help="Attempt of the job, from 0. Default: the newest.")] = None,
    number: Annotated[int | None, typer.Option("--try", min=0, help="Try of the task in that attempt, from 0.")] = None,
    json: JsonOption = False,
) -> None:
    """Print the log of a task."""
    if stdout and stderr:
        raise typer.BadParameter("--stdout and --stderr cannot be used together; omit both to print both")
    if tail is not None and since is not None:
        raise typer.BadParameter("--tail and --since cannot be used together")
    if json and follow:
        raise typer.BadParameter("--json cannot be used with --follow")
    start = parse_since(since) if since else None
    stream = "stdout" if stdout else "stderr" if stderr else None
    with open_client() as client:
        if json:
            found = client.get_log(
                job, task=task, attempt=attempt, number=number, stream=stream, lines=tail, since=start
            )
            text = found.data.decode("utf-8", "replace")
            where = {"start": found.start, "end": found.end, "size": found.size, "complete": found.complete}
            output.emit_json({"task": found.task, **where, "text": text})
            return
        if task is None:
            task = _choose_task(client, job, attempt)
        pieces = client.stream_log(
            job, follow=follow, task=task, attempt=attempt, number=number, stream=stream, lines=tail, since=start
        )
        with ExitStack() as notifications:
            if follow:
                notifications.enter_context(print_debuggers_in_background(job))
                notifications.enter_context(print_blockers_in_background(job))
            for piece in pieces:
                output.emit_bytes(piece)


def _choose_task(client: Client, ref: str, attempt: int | None) -> str | None:
    """Choose the task to show, and print which of several it is."""
    job = client.get_job(ref)
    if job.task_count == 1 or not job.tasks:
        return None
    task = job.decided_by or job.tasks[0].task
    if attempt not in (None, job.attempt):
        task = client.get_log(job.id, attempt=attempt, lines=0).task
    print_log_heading(job, task)
    return task
