"""The ways into tasks that run or are held, as the rows of a job's page show them."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from shlex import quote as shell_quote
from urllib.parse import quote

from holdfast.core.attempt import Debugger
from holdfast.core.records import JobSummary
from holdfast.services.inside.service import Entrance

from ....origin import host_of
from ...visit import Visit

MAX_DEBUGGERS = 3  # of one task that are shown


@dataclass(frozen=True, slots=True, kw_only=True)
class Inside:
    """One task that the visitor may enter now."""

    task: str
    terminal: str  # the address of its page
    stacks: str
    ssh: str  # the line to type; empty: the gateway is closed
    cli: str
    held: bool
    files_only: bool
    debuggers: tuple[Debugger, ...] = ()  # in it, each on a port of its own

    @property
    def debug(self) -> tuple[str, ...]:
        """The lines that lead to them, by name where there are several."""
        line = self.cli.replace("holdfast ssh", "holdfast debug", 1)
        several = len(self.debuggers) > 1
        return tuple(f"{line} --id {shell_quote(each.id)}" if several else line for each in self.debuggers)


def insides(visit: Visit, job: JobSummary, wanted: Collection[str]) -> Mapping[str, Inside]:
    """Of these attempts, by their ids; empty for whoever may not enter."""
    waiting: dict[str, list[Debugger]] = {}
    for each in visit.services.debuggers.of(job.id):
        waiting.setdefault(each.task, []).append(each.debugger)
    open_ones = [each for each in visit.services.entering.tasks_of(visit.who, job) if each.attempt_id in wanted]
    return {each.attempt_id: inside(visit, each, waiting.get(each.task, ())) for each in open_ones}


def inside(visit: Visit, entrance: Entrance, debuggers: Sequence[Debugger] = ()) -> Inside:
    place, which = f"/jobs/{entrance.job.id}", quote(entrance.task, safe="")
    gate = visit.services.ssh_gate
    return Inside(
        task=entrance.task,
        terminal=f"{place}/terminal?task={which}",
        stacks=f"{place}/stacks?task={which}",
        ssh=gate.line(entrance, host_of(visit.request)).command if gate.is_open else "",
        cli=f"holdfast ssh {entrance.job.id} {shell_quote(entrance.task)}",
        held=entrance.held,
        files_only=entrance.files_only,
        debuggers=tuple(debuggers[:MAX_DEBUGGERS]),
    )


async def needs_key(visit: Visit) -> bool:
    """Whoever has no key of their own gets in by SSH only with a token; the page then says how to change that."""
    return visit.services.ssh_gate.is_open and not await visit.services.keys.list(visit.who)
