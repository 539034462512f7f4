"""The `top` command: live usage of nodes, groups and jobs, or of the tasks of one job."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING, Annotated, TypeVar

import typer

from .. import output
from ..options import JsonOption, complete_job, open_client
from ..quantities import format_size, format_span, utc_now
from .holds import format_job_message
from .top_job import render_job_page

if TYPE_CHECKING:
    from rich.console import RenderableType

    from holdfast.api.metrics import InstallationUsage, Load
    from holdfast.sdk import Capacity, Client, ListedJob

T = TypeVar("T")

ACTIVE_STATES = ("Running", "Preparing", "Held", "Pending", "Unknown")
BAR_WIDTH = 16  # characters
MIN_BAR_COLUMNS = 110
NO_METRICS_TEXT = "–"
USAGE_COLUMNS = ("CPU NOW", "MEMORY NOW", "GPU NOW")

JobOrAllArgument = Annotated[
    str | None,
    typer.Argument(
        metavar="[JOB]",
        help="Show the tasks of this job: id, a unique part of it, or a name. Default: all nodes and jobs.",
        autocompletion=complete_job,
        show_default=False,
    ),
]


def top(
    job: JobOrAllArgument = None,
    every: Annotated[float, typer.Option("--every", min=0.5, help="Seconds between updates.")] = 2.0,
    once: Annotated[bool, typer.Option("--once", help="Print once and exit.")] = False,
    limit: Annotated[int, typer.Option("--limit", "-n", min=1, max=500, help="Maximum number of jobs or tasks.")] = 20,
    json: JsonOption = False,
) -> None:
    """Show the usage of nodes, groups and jobs, or of the tasks of one job. Refreshes on a terminal."""
    with open_client() as client:
        if json:
            output.emit_json(client.get_current_metrics(job) if job is not None else _load_overview_dict(client, limit))
            return
        look = _build_view(client, job, limit)
        if once or not output.is_terminal(sys.stdout):
            output.emit_line(output.render_to_string(look()))
        else:
            with suppress(KeyboardInterrupt):  # how the user ends it
                _run_live_view(client, look, every)


def _build_view(client: Client, job: str | None, limit: int) -> Callable[[], RenderableType]:
    if job is None:
        return lambda: _render_overview(*_load_overview(client, limit))
    found = client.get_current_metrics(job).job  # a newer job may get the same name
    return lambda: render_job_page(client.get_current_metrics(found), limit)


def _run_live_view(client: Client, look: Callable[[], RenderableType], every: float) -> None:
    from rich.live import Live

    page = look()
    client.retry_timeout = 60.0
    with Live(page, console=output.create_console(sys.stdout), auto_refresh=False, screen=True) as live:
        while True:
            time.sleep(every)
            live.update(look(), refresh=True)


def _load_overview(client: Client, limit: int) -> tuple[Capacity, tuple[ListedJob, ...], InstallationUsage]:
    return client.get_capacity(), client.list_jobs(states=ACTIVE_STATES, limit=limit).items, client.get_current_usage()


def _load_overview_dict(client: Client, limit: int) -> dict[str, object]:
    capacity, jobs, load = _load_overview(client, limit)
    return {"capacity": capacity, "jobs": jobs, "load": load}


def _render_overview(capacity: Capacity, jobs: tuple[ListedJob, ...], load: InstallationUsage) -> RenderableType:
    from rich.console import Group

    parts = [
        _build_node_table(capacity, load),
        _build_group_table(capacity, load),
        _build_job_table(jobs, load),
        _build_footnote(jobs, load),
    ]
    spaced = [piece for part in parts if part is not None for piece in (part, "")]
    return Group(*spaced[:-1])


def _build_node_table(capacity: Capacity, load: InstallationUsage) -> RenderableType:
    rows = []
    for node in capacity.nodes:
        used = node.cpu - node.free.cpu
        memory = node.memory - node.free.memory
        gpus = len(node.gpus) - node.free.gpu
        row = [
            node.name,
            f"{_draw_bar(used, node.cpu)}{used:g}/{node.cpu:g}",
            f"{_draw_bar(memory, node.memory)}{format_size(memory)}/{format_size(node.memory)}",
            f"{_draw_bar(gpus, len(node.gpus))}{gpus}/{len(node.gpus)}" if node.gpus else "none",
            *_format_usage(load.nodes.get(node.name)),
        ]
        rows.append(row)
    return output.build_table(("NODE", "CORES", "MEMORY", "GPUS", *USAGE_COLUMNS), rows, drop=["GPU NOW"])


def _format_usage(load: Load | None) -> tuple[str, str, str]:
    return (
        _format_percent(load.cpu if load else None),
        format_size(round(load.memory)) if load else NO_METRICS_TEXT,
        _format_percent(load.gpu if load else None),
    )


def _build_group_table(capacity: Capacity, load: InstallationUsage) -> RenderableType | None:
    bounded = [
        group for group in capacity.groups if any((group.used.cpu, group.used.gpu, group.quota.cpu, group.quota.gpu))
    ]
    if not bounded:
        return None
    rows = [
        [
            group.name,
            f"{group.used.cpu:g}{_format_quota(group.quota.cpu, _format_cores)}",
            format_size(group.used.memory) + _format_quota(group.quota.memory, format_size),
            f"{group.used.gpu}{_format_quota(group.quota.gpu, str)}",
            *_format_usage(load.groups.get(group.name)),
        ]
        for group in bounded
    ]
    return output.build_table(("GROUP", "CORES", "MEMORY", "GPUS", *USAGE_COLUMNS), rows, drop=["GPU NOW"])


def _build_job_table(jobs: tuple[ListedJob, ...], load: InstallationUsage) -> RenderableType:
    if not jobs:
        return output.to_cell("No running or pending jobs.")
    now = utc_now()
    rows = [
        [
            job.id,
            job.name,
            output.build_state_cell(job.state, job.stopping),
            job.user,
            format_span(job.started_at or job.submitted_at, None, now),
            *_format_job_usage(job, load.jobs.get(job.id)),
            format_job_message(job, now),
        ]
        for job in jobs
    ]
    columns = ("ID", "NAME", "STATE", "USER", "FOR", "CPU", "MEMORY", "GPU", "MESSAGE")
    idle = ["USER"] if len({job.user for job in jobs}) == 1 else []  # the same in each row
    idle += [] if any(job.resources.gpu for job in jobs) else ["GPU"]
    return output.build_table(columns, rows, cut=("NAME", "MESSAGE"), drop=[*idle, "USER", "MESSAGE", "FOR", "STATE"])


def _format_job_usage(job: ListedJob, load: Load | None) -> tuple[str, str, str]:
    """Format current usage and request."""
    asked = job.resources
    cpu = f"{round(load.cpu)}" if load else NO_METRICS_TEXT
    memory = format_size(round(load.memory)) if load else NO_METRICS_TEXT
    gpu = f"{_format_percent(load.gpu if load else None)} of {asked.gpu}" if asked.gpu else ""
    return f"{cpu}/{asked.cpu * 100:g} %", f"{memory}/{format_size(asked.memory)}", gpu


def _build_footnote(jobs: tuple[ListedJob, ...], load: InstallationUsage) -> RenderableType | None:
    if not load.measured:
        return output.to_cell("Metrics are disabled on this server (metrics.enabled).")
    if any(job.state == "Running" and job.id not in load.jobs for job in jobs):
        return output.to_cell(
            f"{NO_METRICS_TEXT}: no metrics yet; the first sample comes a few seconds after a task starts."
        )
    return None


def _format_percent(value: float | None) -> str:
    return NO_METRICS_TEXT if value is None else f"{value:.0f} %"


def _format_cores(count: float) -> str:
    return f"{count:g}"


def _format_quota(bound: T | None, show: Callable[[T], str]) -> str:
    return "" if bound is None else f" of {show(bound)}"


def _draw_bar(used: float, total: float) -> str:
    if output.get_width() < MIN_BAR_COLUMNS:
        return ""
    filled = round(BAR_WIDTH * used / total) if total else 0
    return "█" * min(BAR_WIDTH, max(0, filled)) + "·" * (BAR_WIDTH - min(BAR_WIDTH, max(0, filled))) + " "
