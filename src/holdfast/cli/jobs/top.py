"""`holdfast top`: machines, groups and running jobs, or the tasks of one job, refreshed while one looks."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING, Annotated, TypeVar

import typer

from .. import output
from ..options import Json, complete_job, connect
from ..quantities import show_size, show_span, utc_now
from .holds import with_time_left
from .top_job import job_page

if TYPE_CHECKING:
    from rich.console import RenderableType

    from holdfast.api.metrics import Load, PlaceNow
    from holdfast.sdk import Capacity, Client, ListedJob

T = TypeVar("T")

ACTIVE = ("Running", "Preparing", "Held", "Pending", "Unknown")
BAR = 16  # characters
WIDE_ENOUGH = 110  # columns that bars take
NONE = "–"  # where there are no figures
NOW = ("CPU NOW", "MEMORY NOW", "GPU NOW")

JobOrAll = Annotated[
    str | None,
    typer.Argument(
        metavar="[JOB]",
        help="The tasks of this job: id, a unique part of it, or a name. Left out: everything.",
        autocompletion=complete_job,
        show_default=False,
    ),
]


def top(
    job: JobOrAll = None,
    every: Annotated[float, typer.Option("--every", min=0.5, help="Seconds between two looks.")] = 2.0,
    once: Annotated[bool, typer.Option("--once", help="Look once and end.")] = False,
    limit: Annotated[int, typer.Option("--limit", "-n", min=1, max=500, help="How many jobs or tasks at most.")] = 20,
    json: Json = False,
) -> None:
    """Show what machines and jobs are doing and using, or the tasks of one job; live on a terminal, once elsewhere."""
    with connect() as client:
        if json:
            output.emit_json(client.metrics_now(job) if job is not None else _everything(client, limit))
            return
        look = _looks(client, job, limit)
        if once or not output.is_terminal(sys.stdout):
            output.emit(output.render(look()))
        else:
            with suppress(KeyboardInterrupt):  # the way to end it
                _watch(client, look, every)


def _looks(client: Client, job: str | None, limit: int) -> Callable[[], RenderableType]:
    if job is None:
        return lambda: _page(*_look(client, limit))
    found = client.metrics_now(job).job  # the same one, whatever is submitted under its name meanwhile
    return lambda: job_page(client.metrics_now(found), limit)


def _watch(client: Client, look: Callable[[], RenderableType], every: float) -> None:
    from rich.live import Live

    page = look()
    client.patience = 60.0
    with Live(page, console=output.console_for(sys.stdout), auto_refresh=False, screen=True) as live:
        while True:
            time.sleep(every)
            live.update(look(), refresh=True)


def _look(client: Client, limit: int) -> tuple[Capacity, tuple[ListedJob, ...], PlaceNow]:
    return client.capacity(), client.jobs(states=ACTIVE, limit=limit).items, client.load()


def _everything(client: Client, limit: int) -> dict[str, object]:
    capacity, jobs, load = _look(client, limit)
    return {"capacity": capacity, "jobs": jobs, "load": load}


def _page(capacity: Capacity, jobs: tuple[ListedJob, ...], load: PlaceNow) -> RenderableType:
    from rich.console import Group

    parts = [_machines(capacity, load), _groups(capacity, load), _jobs(jobs, load), _footnote(jobs, load)]
    spaced = [piece for part in parts if part is not None for piece in (part, "")]
    return Group(*spaced[:-1])


def _machines(capacity: Capacity, load: PlaceNow) -> RenderableType:
    rows = []
    for node in capacity.nodes:
        used = node.cpu - node.free.cpu
        memory = node.memory - node.free.memory
        gpus = len(node.gpus) - node.free.gpu
        row = [
            node.name,
            f"{_bar(used, node.cpu)}{used:g}/{node.cpu:g}",
            f"{_bar(memory, node.memory)}{show_size(memory)}/{show_size(node.memory)}",
            f"{_bar(gpus, len(node.gpus))}{gpus}/{len(node.gpus)}" if node.gpus else "none",
            *_now(load.nodes.get(node.name)),
        ]
        rows.append(row)
    return output.make_table(("MACHINE", "CORES", "MEMORY", "GPUS", *NOW), rows, drop=["GPU NOW"])


def _now(load: Load | None) -> tuple[str, str, str]:
    return (
        _percent(load.cpu if load else None),
        show_size(round(load.memory)) if load else NONE,
        _percent(load.gpu if load else None),
    )


def _groups(capacity: Capacity, load: PlaceNow) -> RenderableType | None:
    bounded = [
        group for group in capacity.groups if any((group.used.cpu, group.used.gpu, group.quota.cpu, group.quota.gpu))
    ]
    if not bounded:
        return None
    rows = [
        [
            group.name,
            f"{group.used.cpu:g}{_of(group.quota.cpu, _cores)}",
            show_size(group.used.memory) + _of(group.quota.memory, show_size),
            f"{group.used.gpu}{_of(group.quota.gpu, str)}",
            *_now(load.groups.get(group.name)),
        ]
        for group in bounded
    ]
    return output.make_table(("GROUP", "CORES", "MEMORY", "GPUS", *NOW), rows, drop=["GPU NOW"])


def _jobs(jobs: tuple[ListedJob, ...], load: PlaceNow) -> RenderableType:
    if not jobs:
        return output.cell("No job runs or waits.")
    now = utc_now()
    rows = [
        [
            job.id,
            job.name,
            output.state_cell(job.state, job.stopping),
            job.user,
            show_span(job.started_at or job.submitted_at, None, now),
            *_used(job, load.jobs.get(job.id)),
            with_time_left(job, now),
        ]
        for job in jobs
    ]
    columns = ("ID", "NAME", "STATE", "USER", "FOR", "CPU", "MEMORY", "GPU", "MESSAGE")
    idle = ["USER"] if len({job.user for job in jobs}) == 1 else []  # the same in each row
    idle += [] if any(job.resources.gpu for job in jobs) else ["GPU"]
    return output.make_table(columns, rows, cut=("NAME", "MESSAGE"), drop=[*idle, "USER", "MESSAGE", "FOR", "STATE"])


def _used(job: ListedJob, load: Load | None) -> tuple[str, str, str]:
    """What it uses now, of what it asked for."""
    asked = job.resources
    cpu = f"{round(load.cpu)}" if load else NONE
    memory = show_size(round(load.memory)) if load else NONE
    gpu = f"{_percent(load.gpu if load else None)} of {asked.gpu}" if asked.gpu else ""
    return f"{cpu}/{asked.cpu * 100:g} %", f"{memory}/{show_size(asked.memory)}", gpu


def _footnote(jobs: tuple[ListedJob, ...], load: PlaceNow) -> RenderableType | None:
    if not load.measured:
        return output.cell("Nothing is measured here: the setting metrics.enabled is off.")
    if any(job.state == "Running" and job.id not in load.jobs for job in jobs):
        return output.cell(f"{NONE}: no figures yet; a task is first looked at some seconds after its start.")
    return None


def _percent(value: float | None) -> str:
    return NONE if value is None else f"{value:.0f} %"


def _cores(count: float) -> str:
    return f"{count:g}"


def _of(bound: T | None, show: Callable[[T], str]) -> str:
    return "" if bound is None else f" of {show(bound)}"


def _bar(used: float, total: float) -> str:
    if output.width() < WIDE_ENOUGH:
        return ""
    filled = round(BAR * used / total) if total else 0
    return "█" * min(BAR, max(0, filled)) + "·" * (BAR - min(BAR, max(0, filled))) + " "
