"""Access to running and held tasks, for the rows of a job's page."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from shlex import quote as shell_quote
from urllib.parse import quote

from holdfast.core.attempt import Debugger
from holdfast.core.records import JobSummary
from holdfast.services.inside.service import ExecTarget

from ....origin import get_host
from ...visit import Visit

MAX_DEBUGGERS = 3  # shown per task


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskAccess:
    """A task that the visitor can connect to."""

    task: str
    terminal: str  # address of the terminal page
    stacks: str
    ssh: str  # the SSH command; empty: the SSH gateway is disabled
    cli: str
    held: bool
    files_only: bool
    debuggers: tuple[Debugger, ...] = ()  # in the task, each on its own port

    @property
    def debug_command(self) -> tuple[str, ...]:
        """The commands to connect to the debuggers, with names if there are several."""
        line = self.cli.replace("holdfast ssh", "holdfast debug", 1)
        several = len(self.debuggers) > 1
        return tuple(f"{line} --id {shell_quote(each.id)}" if several else line for each in self.debuggers)


def build_task_access_by_attempt(
    visit: Visit, job: JobSummary, attempt_ids: Collection[str]
) -> Mapping[str, TaskAccess]:
    """Map these task attempts to their access; empty if the user cannot connect."""
    waiting: dict[str, list[Debugger]] = {}
    for each in visit.services.debuggers.list_job_debuggers(job.id):
        waiting.setdefault(each.task, []).append(each.debugger)
    targets = [
        each
        for each in visit.services.task_access.list_job_targets(visit.current_actor, job)
        if each.attempt_id in attempt_ids
    ]
    return {each.attempt_id: build_task_access(visit, each, waiting.get(each.task, ())) for each in targets}


def build_task_access(visit: Visit, target: ExecTarget, debuggers: Sequence[Debugger] = ()) -> TaskAccess:
    job_path, which = f"/jobs/{target.job.id}", quote(target.task, safe="")
    gateway = visit.services.ssh_gateway
    return TaskAccess(
        task=target.task,
        terminal=f"{job_path}/terminal?task={which}",
        stacks=f"{job_path}/stacks?task={which}",
        ssh=gateway.build_command(target, get_host(visit.request)).command if gateway.is_open else "",
        cli=f"holdfast ssh {target.job.id} {shell_quote(target.task)}",
        held=target.held,
        files_only=target.files_only,
        debuggers=tuple(debuggers[:MAX_DEBUGGERS]),
    )


async def needs_ssh_key(visit: Visit) -> bool:
    """Whether the user has no SSH key, and so needs a token for SSH; the page then shows a hint."""
    return visit.services.ssh_gateway.is_open and not await visit.services.keys.list(visit.current_actor)
