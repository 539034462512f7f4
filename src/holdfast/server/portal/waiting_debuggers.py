"""Debuggers that wait, as lists and pages show them."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from datetime import datetime
from urllib.parse import quote

from holdfast.core.access import Actor, may_enter
from holdfast.core.records import JobSummary
from holdfast.core.states import JobState
from holdfast.services import Services

MAX_LENGTH = 80  # characters of a place: the task says it, and may say anything
MAX_COUNT = 5  # that a page names


@dataclass(frozen=True, slots=True)
class WaitingDebugger:
    task: str
    place: str  # train.py:42
    address: str  # of its page; empty for whoever may not enter
    since: datetime
    attached: bool = False  # somebody is at it
    until: datetime | None = None  # then it waits no more
    function: str = ""  # in which it stands


def waiting_debuggers(services: Services, actor: Actor, job: JobSummary) -> tuple[WaitingDebugger, ...]:
    """Those that hold a program up. From memory; cheap for jobs that do not run."""
    if job.state.final or job.state is JobState.PENDING:
        return ()
    enters = may_enter(actor, job.group, job.user)
    present = services.debuggers.of(job.id)
    in_task = Counter(each.task for each in present)
    found = [each for each in present if each.debugger.waits]
    return tuple(
        WaitingDebugger(
            each.task,
            each.place[-MAX_LENGTH:],
            debugger_address(job.id, each.task, each.debugger.id if in_task[each.task] > 1 else "") if enters else "",
            each.debugger.since,
            each.debugger.attached,
            each.debugger.until,
            each.debugger.function[:MAX_LENGTH],
        )
        for each in found[:MAX_COUNT]
    )


def debugger_address(job: str, task: str, id: str = "") -> str:
    """Of the page of a task's debugger: that one of several, or whichever comes first."""
    return f"/jobs/{job}/debugger?task={quote(task, safe='')}" + (f"&id={quote(id, safe='')}" if id else "")
