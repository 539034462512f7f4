"""Waiting debuggers, for lists and pages."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from datetime import datetime
from urllib.parse import quote

from holdfast.core.access import Actor, can_exec
from holdfast.core.records import JobSummary
from holdfast.core.states import JobState
from holdfast.services import Services

MAX_LOCATION_LENGTH = 80  # characters of a position, which comes from the task and is untrusted
MAX_SHOWN_DEBUGGERS = 5  # shown on a page


@dataclass(frozen=True, slots=True)
class WaitingDebugger:
    task: str
    place: str  # train.py:42
    address: str  # of its page; empty if the user cannot connect
    since: datetime
    attached: bool = False  # a user is connected
    until: datetime | None = None  # when it stops waiting
    function: str = ""  # where it is stopped


def list_waiting_debuggers(services: Services, actor: Actor, job: JobSummary) -> tuple[WaitingDebugger, ...]:
    """Return the debuggers that wait for a user. Reads memory only; cheap for jobs that do not run."""
    if job.state.final or job.state is JobState.PENDING:
        return ()
    enters = can_exec(actor, job.group, job.user)
    present = services.debuggers.list_job_debuggers(job.id)
    in_task = Counter(each.task for each in present)
    found = [each for each in present if each.debugger.waits]
    return tuple(
        WaitingDebugger(
            each.task,
            each.location[-MAX_LOCATION_LENGTH:],
            build_debugger_address(job.id, each.task, each.debugger.id if in_task[each.task] > 1 else "")
            if enters
            else "",
            each.debugger.since,
            each.debugger.attached,
            each.debugger.until,
            each.debugger.function[:MAX_LOCATION_LENGTH],
        )
        for each in found[:MAX_SHOWN_DEBUGGERS]
    )


def build_debugger_address(job: str, task: str, id: str = "") -> str:
    """Return the path of the debugger page of a task, for this debugger or the first one."""
    return f"/jobs/{job}/debugger?task={quote(task, safe='')}" + (f"&id={quote(id, safe='')}" if id else "")
