"""`holdfast stack`: where the programs of a task are right now."""

from __future__ import annotations

import sys
from contextlib import suppress
from pathlib import PurePosixPath
from typing import TYPE_CHECKING

from holdfast.core.errors import HoldfastError

from .. import output
from ..jobs.debugger_notification import free
from ..options import JobRef, Json, connect
from ..quantities import show_count
from .target_task import TaskName, quick_client

if TYPE_CHECKING:
    from holdfast.api.inside import Process, Stacks, Thread


def stack(job: JobRef, task: TaskName = None, json: Json = False) -> None:
    """Show where a task's programs are right now: the Python stacks of all its processes."""
    with quick_client() as client:
        found = client.stacks(job, task)
    if json:
        output.emit_json(found)
        return
    _show(found)


def _show(found: Stacks) -> None:
    output.note(f"{output.safe(found.task)} of {found.job}", "dim")
    for at, process in enumerate(found.processes):
        if at:
            output.emit()
        _show_process(process)
    if not found.processes:
        output.note("Nothing runs in it.")
    if found.left_out:
        output.note(f"{show_count(found.left_out, 'more process')} left out", "dim")
    if output.is_terminal(sys.stderr):
        way = "debug" if _debugger_waits(found) else "ssh"
        output.hint(f"holdfast {way} {found.job} {found.task}")


def _debugger_waits(found: Stacks) -> bool:
    """In that task, for anybody."""
    with suppress(HoldfastError), connect() as client:  # the stacks were shown, whatever comes now
        return any(each.task == found.task for each in free(client.job(found.job).debuggers))
    return False


def _show_process(process: Process) -> None:
    waits = f", in {process.waits_in}" if process.waits_in and not process.threads else ""
    heading = output.safe(f"{process.pid} {process.command}")
    output.emit(f"{output.styled(heading, 'bold', sys.stdout)}  {output.safe(process.state)}{output.safe(waits)}")
    if process.error:
        output.emit(f"  {output.styled(output.safe(process.error), 'yellow', sys.stdout)}")
    for thread in process.threads:
        _show_thread(thread)


def _show_thread(thread: Thread) -> None:
    facts = [fact for fact, holds in (("active", thread.active), ("has the GIL", thread.owns_gil)) if holds]
    told = f" ({', '.join(facts)})" if facts else ""
    output.emit(f"  {output.safe(thread.name or f'thread {thread.id}')}{told}")
    for frame in thread.frames:
        place = f"{PurePosixPath(frame.file).name}:{frame.line}"
        output.emit(f"    {output.safe(frame.function)} ({output.safe(place)})")
