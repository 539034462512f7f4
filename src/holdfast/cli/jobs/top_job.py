"""The page of `holdfast top JOB`: what each task uses."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from .. import output
from ..quantities import show_size

if TYPE_CHECKING:
    from rich.console import RenderableType

    from holdfast.api.metrics import GpuMetrics, JobNow, TaskFigures, TaskNow

NONE = "–"  # where there are no figures
PLAIN = ("TASK", "STATE", "CPU", "CORES", "MEMORY", "LIMIT")
GPU = ("GPU", "GPU MEMORY")
RATES = ("IN/s", "OUT/s", "READ/s", "WRITE/s")


def job_page(now: JobNow, limit: int) -> RenderableType:
    from rich.console import Group

    head = output.cell(f"{now.name} ({now.job}): {now.state}")
    head.no_wrap, head.overflow = True, "ellipsis"
    if not now.tasks:
        return Group(head, "", output.cell(f"No task of it is on a machine. `holdfast why {now.job}` says why."))
    return Group(head, "", _tasks(now.tasks[:limit]), *_notes(now, limit))


def _tasks(tasks: Sequence[TaskNow]) -> RenderableType:
    has_gpus = any(task.gpu_asked for task in tasks)
    rows: list[Sequence[object]] = [_row(task, has_gpus) for task in tasks]
    measured = [task.figures for task in tasks if task.figures]
    if len(measured) > 1:
        rows.append(_mean(measured, has_gpus))
    columns = (*PLAIN, *(GPU if has_gpus else ()), *RATES)
    alike = ["STATE"] if {task.state for task in tasks} == {"Running"} else []
    return output.make_table(columns, rows, drop=[*alike, "CORES", "GPU MEMORY", "WRITE/s", "READ/s", "OUT/s", "IN/s"])


def _row(task: TaskNow, has_gpus: bool) -> Sequence[object]:
    found = task.figures
    plain = (task.task, output.state_cell(task.state))
    asked = show_size(found.memory_limit if found and found.memory_limit else task.memory_asked)
    if found is None:
        return (*plain, NONE, f"{task.cpu_asked:g}", NONE, asked, *((NONE, NONE) if has_gpus else ()), *[NONE] * 4)
    return (
        *plain,
        f"{found.cpu:.0f} %",
        f"{task.cpu_asked:g}",
        show_size(round(found.memory)),
        asked,
        *(_gpus(found.gpus) if has_gpus else ()),
        *_rates(found),
    )


def _gpus(gpus: Sequence[GpuMetrics]) -> tuple[str, str]:
    """One by one while they are few."""
    if not gpus:
        return NONE, NONE
    percents = [f"{gpu.percent:.0f}" for gpu in gpus]
    shown = " ".join(percents) if len(gpus) <= 4 else f"{sum(gpu.percent for gpu in gpus) / len(gpus):.0f}"
    used, total = sum(gpu.memory for gpu in gpus), sum(gpu.memory_total for gpu in gpus)
    return f"{shown} %", f"{show_size(round(used))} of {show_size(total)}"


def _mean(found: Sequence[TaskFigures], has_gpus: bool) -> Sequence[object]:
    gpus = [gpu.percent for each in found for gpu in each.gpus]
    count = len(found)
    percent = f"{sum(gpus) / len(gpus):.0f} %" if gpus else NONE
    return (
        "mean",
        "",
        f"{sum(each.cpu for each in found) / count:.0f} %",
        "",
        show_size(round(sum(each.memory for each in found) / count)),
        "",
        *((percent, "") if has_gpus else ()),
        show_rate(sum(each.net_in for each in found) / count),
        show_rate(sum(each.net_out for each in found) / count),
        show_rate(sum(each.disk_read for each in found) / count),
        show_rate(sum(each.disk_written for each in found) / count),
    )


def _rates(found: TaskFigures) -> tuple[str, ...]:
    return tuple(show_rate(rate) for rate in (found.net_in, found.net_out, found.disk_read, found.disk_written))


def show_rate(count: float) -> str:
    """Bytes in a second, short: 0, 980, 1.2K, 34M, 5.6G."""
    for unit, size in (("G", 1 << 30), ("M", 1 << 20), ("K", 1 << 10)):
        if count >= size:
            value = count / size
            return f"{value:.1f}{unit}" if value < 10 else f"{value:.0f}{unit}"
    return f"{count:.0f}"


def _notes(now: JobNow, limit: int) -> list[RenderableType]:
    told: list[str] = []
    shown = now.tasks[:limit]
    if now.total > len(shown):
        told.append(f"{now.total - len(shown)} more tasks are not shown; --limit takes more.")
    if not now.measured:
        told.append("Nothing is measured here: the setting metrics.enabled is off.")
    elif any(task.figures is None and task.state == "Running" for task in shown):
        told.append(f"{NONE}: no figures yet; a task is first looked at some seconds after its start.")
    return ["", *(output.cell(line) for line in told)] if told else []
