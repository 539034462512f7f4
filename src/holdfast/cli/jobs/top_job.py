"""The page of `holdfast top JOB`: usage of each task."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from .. import output
from ..quantities import format_size

if TYPE_CHECKING:
    from rich.console import RenderableType

    from holdfast.api.metrics import GpuMetrics, JobUsage, TaskMetrics, TaskUsage

NO_METRICS_TEXT = "–"
BASE_COLUMNS = ("TASK", "STATE", "CPU", "CORES", "MEMORY", "LIMIT")
GPU_COLUMNS = ("GPU", "GPU MEMORY")
RATE_COLUMNS = ("IN/s", "OUT/s", "READ/s", "WRITE/s")


def render_job_page(now: JobUsage, limit: int) -> RenderableType:
    from rich.console import Group

    head = output.to_cell(f"{now.name} ({now.job}): {now.state}")
    head.no_wrap, head.overflow = True, "ellipsis"
    if not now.tasks:
        return Group(head, "", output.to_cell(f"No task of this job runs. To see why, run `holdfast why {now.job}`."))
    return Group(head, "", _build_task_table(now.tasks[:limit]), *_list_notes(now, limit))


def _build_task_table(tasks: Sequence[TaskUsage]) -> RenderableType:
    has_gpus = any(task.gpu_asked for task in tasks)
    rows: list[Sequence[object]] = [_build_row(task, has_gpus) for task in tasks]
    measured = [task.metrics for task in tasks if task.metrics]
    if len(measured) > 1:
        rows.append(_build_mean_row(measured, has_gpus))
    columns = (*BASE_COLUMNS, *(GPU_COLUMNS if has_gpus else ()), *RATE_COLUMNS)
    alike = ["STATE"] if {task.state for task in tasks} == {"Running"} else []
    return output.build_table(columns, rows, drop=[*alike, "CORES", "GPU MEMORY", "WRITE/s", "READ/s", "OUT/s", "IN/s"])


def _build_row(task: TaskUsage, has_gpus: bool) -> Sequence[object]:
    found = task.metrics
    plain = (task.task, output.build_state_cell(task.state))
    asked = format_size(found.memory_limit if found and found.memory_limit else task.memory_asked)
    if found is None:
        return (
            *plain,
            NO_METRICS_TEXT,
            f"{task.cpu_asked:g}",
            NO_METRICS_TEXT,
            asked,
            *((NO_METRICS_TEXT, NO_METRICS_TEXT) if has_gpus else ()),
            *[NO_METRICS_TEXT] * 4,
        )
    return (
        *plain,
        f"{found.cpu:.0f} %",
        f"{task.cpu_asked:g}",
        format_size(round(found.memory)),
        asked,
        *(_format_gpus(found.gpus) if has_gpus else ()),
        *_format_rates(found),
    )


def _format_gpus(gpus: Sequence[GpuMetrics]) -> tuple[str, str]:
    """Format usage and memory of the GPUs; each GPU if there are at most 4."""
    if not gpus:
        return NO_METRICS_TEXT, NO_METRICS_TEXT
    percents = [f"{gpu.percent:.0f}" for gpu in gpus]
    shown = " ".join(percents) if len(gpus) <= 4 else f"{sum(gpu.percent for gpu in gpus) / len(gpus):.0f}"
    used, total = sum(gpu.memory for gpu in gpus), sum(gpu.memory_total for gpu in gpus)
    return f"{shown} %", f"{format_size(round(used))} of {format_size(total)}"


def _build_mean_row(found: Sequence[TaskMetrics], has_gpus: bool) -> Sequence[object]:
    gpus = [gpu.percent for each in found for gpu in each.gpus]
    count = len(found)
    percent = f"{sum(gpus) / len(gpus):.0f} %" if gpus else NO_METRICS_TEXT
    return (
        "mean",
        "",
        f"{sum(each.cpu for each in found) / count:.0f} %",
        "",
        format_size(round(sum(each.memory for each in found) / count)),
        "",
        *((percent, "") if has_gpus else ()),
        format_rate(sum(each.net_in for each in found) / count),
        format_rate(sum(each.net_out for each in found) / count),
        format_rate(sum(each.disk_read for each in found) / count),
        format_rate(sum(each.disk_written for each in found) / count),
    )


def _format_rates(found: TaskMetrics) -> tuple[str, ...]:
    return tuple(format_rate(rate) for rate in (found.net_in, found.net_out, found.disk_read, found.disk_written))


def format_rate(count: float) -> str:
    """Format bytes per second: 0, 980, 1.2K, 34M, 5.6G."""
    for unit, size in (("G", 1 << 30), ("M", 1 << 20), ("K", 1 << 10)):
        if count >= size:
            value = count / size
            return f"{value:.1f}{unit}" if value < 10 else f"{value:.0f}{unit}"
    return f"{count:.0f}"


def _list_notes(now: JobUsage, limit: int) -> list[RenderableType]:
    notes: list[str] = []
    shown = now.tasks[:limit]
    if now.total > len(shown):
        notes.append(f"{now.total - len(shown)} more tasks are not shown; raise --limit to show them.")
    if not now.measured:
        notes.append("Metrics are disabled on this server (metrics.enabled).")
    elif any(task.metrics is None and task.state == "Running" for task in shown):
        notes.append(f"{NO_METRICS_TEXT}: no metrics yet; the first sample comes a few seconds after a task starts.")
    return ["", *(output.to_cell(line) for line in notes)] if notes else []
