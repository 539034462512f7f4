"""The `stack` command: Python stack traces of a task."""

from __future__ import annotations

import sys
from contextlib import suppress
from pathlib import PurePosixPath
from typing import TYPE_CHECKING

from holdfast.core.errors import HoldfastError

from .. import output
from ..jobs.debugger_notification import list_unattached_debuggers
from ..options import JobRefArgument, JsonOption, open_client
from ..quantities import format_count
from .target_task import TaskNameArgument, open_task_client

if TYPE_CHECKING:
    from holdfast.api.inside import Process, StackDump, Thread


def stack(job: JobRefArgument, task: TaskNameArgument = None, json: JsonOption = False) -> None:
    """Show the Python stack traces of all processes in a task."""
    with open_task_client() as client:
        found = client.get_stack_traces(job, task)
    if json:
        output.emit_json(found)
        return
    _print_stacks(found)


def _print_stacks(found: StackDump) -> None:
    output.print_note(f"{output.escape(found.task)} of {found.job}", "dim")
    for at, process in enumerate(found.processes):
        if at:
            output.emit_line()
        _show_process(process)
    if not found.processes:
        output.print_note("No processes are running in this task.")
    if found.left_out:
        output.print_note(f"{format_count(found.left_out, 'more process')} not shown", "dim")
    if output.is_terminal(sys.stderr):
        way = "debug" if _has_waiting_debugger(found) else "ssh"
        output.print_hint(f"holdfast {way} {found.job} {found.task}")


def _has_waiting_debugger(found: StackDump) -> bool:
    with suppress(HoldfastError), open_client() as client:  # optional: the stacks are already shown
        return any(each.task == found.task for each in list_unattached_debuggers(client.get_job(found.job).debuggers))
    return False


def _show_process(process: Process) -> None:
    waits = f", in {process.waits_in}" if process.waits_in and not process.threads else ""
    heading = output.escape(f"{process.pid} {process.command}")
    output.emit_line(
        f"{output.style_text(heading, 'bold', sys.stdout)}  {output.escape(process.state)}{output.escape(waits)}"
    )
    if process.error:
        output.emit_line(f"  {output.style_text(output.escape(process.error), 'yellow', sys.stdout)}")
    for thread in process.threads:
        _show_thread(thread)


def _show_thread(thread: Thread) -> None:
    facts = [fact for fact, holds in (("active", thread.active), ("holds the GIL", thread.owns_gil)) if holds]
    details = f" ({', '.join(facts)})" if facts else ""
    output.emit_line(f"  {output.escape(thread.name or f'thread {thread.id}')}{details}")
    for frame in thread.frames:
        place = f"{PurePosixPath(frame.file).name}:{frame.line}"
        output.emit_line(f"    {output.escape(frame.function)} ({output.escape(place)})")
