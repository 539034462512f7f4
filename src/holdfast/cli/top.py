"""`holdfast top`: machines, groups and running jobs, refreshed while one looks."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING, Annotated, TypeVar

import typer

from . import output
from .holds import with_time_left
from .options import Json, connect
from .quantities import show_size, show_span, utc_now

if TYPE_CHECKING:
    from rich.console import RenderableType

    from holdfast.sdk import Capacity, Client, JobSummary

T = TypeVar("T")

ACTIVE = ("Running", "Preparing", "Held", "Pending", "Unknown")
BAR = 16  # characters


def top(
    every: Annotated[float, typer.Option("--every", min=0.5, help="Seconds between two looks.")] = 2.0,
    once: Annotated[bool, typer.Option("--once", help="Look once and end.")] = False,
    limit: Annotated[int, typer.Option("--limit", "-n", min=1, max=500, help="How many jobs at most.")] = 20,
    json: Json = False,
) -> None:
    """Show what the machines are doing; live on a terminal, once elsewhere."""
    with connect() as client:
        if json:
            capacity, jobs = _look(client, limit)
            output.emit_json({"capacity": capacity, "jobs": jobs})
        elif once or not output.is_terminal(sys.stdout):
            output.emit(output.render(_page(*_look(client, limit))))
        else:
            with suppress(KeyboardInterrupt):  # the way to end it
                _watch(client, every, limit)


def _watch(client: Client, every: float, limit: int) -> None:
    from rich.live import Live

    page = _page(*_look(client, limit))
    client.patience = 60.0
    with Live(page, console=output.console_for(sys.stdout), auto_refresh=False, screen=True) as live:
        while True:
            time.sleep(every)
            live.update(_page(*_look(client, limit)), refresh=True)


def _look(client: Client, limit: int) -> tuple[Capacity, tuple[JobSummary, ...]]:
    return client.capacity(), client.jobs(states=ACTIVE, limit=limit).items


def _page(capacity: Capacity, jobs: tuple[JobSummary, ...]) -> RenderableType:
    from rich.console import Group

    parts = [_machines(capacity), _groups(capacity), _jobs(jobs)]
    spaced = [piece for part in parts if part is not None for piece in (part, "")]
    return Group(*spaced[:-1])


def _machines(capacity: Capacity) -> RenderableType:
    rows = []
    for node in capacity.nodes:
        used = node.cpu - node.free.cpu
        memory = node.memory - node.free.memory
        gpus = len(node.gpus) - node.free.gpu
        rows.append(
            [
                node.name,
                f"{_bar(used, node.cpu)} {used:g}/{node.cpu:g}",
                f"{_bar(memory, node.memory)} {show_size(memory)}/{show_size(node.memory)}",
                f"{_bar(gpus, len(node.gpus))} {gpus}/{len(node.gpus)}" if node.gpus else "none",
            ]
        )
    return output.make_table(("MACHINE", "CORES", "MEMORY", "GPUS"), rows)


def _groups(capacity: Capacity) -> RenderableType | None:
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
        ]
        for group in bounded
    ]
    return output.make_table(("GROUP", "CORES", "MEMORY", "GPUS"), rows)


def _jobs(jobs: tuple[JobSummary, ...]) -> RenderableType:
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
            f"{job.resources.cpu:g}",
            show_size(job.resources.memory),
            job.resources.gpu or "",
            with_time_left(job, now),
        ]
        for job in jobs
    ]
    columns = ("ID", "NAME", "STATE", "USER", "FOR", "CORES", "MEMORY", "GPUS", "MESSAGE")
    idle = ["USER"] if len({job.user for job in jobs}) == 1 else []  # the same in each row
    return output.make_table(columns, rows, cut=("NAME", "MESSAGE"), drop=[*idle, "GPUS", "MEMORY", "CORES", "FOR"])


def _cores(count: float) -> str:
    return f"{count:g}"


def _of(bound: T | None, show: Callable[[T], str]) -> str:
    return "" if bound is None else f" of {show(bound)}"


def _bar(used: float, total: float) -> str:
    filled = round(BAR * used / total) if total else 0
    return "█" * min(BAR, max(0, filled)) + "·" * (BAR - min(BAR, max(0, filled)))
