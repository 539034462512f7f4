"""All tasks of a job as a streamed CSV file."""

from __future__ import annotations

import csv
import io
from collections.abc import AsyncGenerator, Mapping
from datetime import datetime

from starlette.responses import Response

from holdfast.core.exits.meanings import find_meaning
from holdfast.core.exits.table import find_hint
from holdfast.core.records import TaskRecord
from holdfast.services.jobs.job_pages import JobHeader

from ....access_guard import make_job_access_check, make_request_guard
from ....streams import StreamedResponse
from ...visit import Visit
from .tasks import get_requested_attempt

COLUMNS = (
    *("task", "role", "index", "attempt", "try", "state", "node", "ip", "ports", "gpus"),
    *("placed_at", "started_at", "finished_at", "seconds", "exit_code", "exit_type", "exit_message"),
    *("exit_meaning", "remedy", "retries", "platform_retries"),
)
_FORMULA_PREFIXES = ("=", "+", "-", "@", "\t", "\r")  # start of a spreadsheet formula


async def export_tasks(visit: Visit) -> Response:
    job = await visit.services.job_pages.get(visit.current_actor, visit.path_params["ref"])
    attempt = get_requested_attempt(visit, job)
    name = f"{job.record.summary.id}-tasks.csv"
    headers = {"Content-Disposition": f'attachment; filename="{name}"', "Cache-Control": "no-store"}
    guard = make_request_guard(visit.services, visit.request, make_job_access_check(job.record.summary))
    return StreamedResponse(
        _iter_csv_chunks(visit, job, attempt), guard=guard, media_type="text/csv; charset=utf-8", headers=headers
    )


async def _iter_csv_chunks(visit: Visit, job: JobHeader, attempt: int) -> AsyncGenerator[bytes, None]:
    yield _format_csv([COLUMNS])
    addresses = visit.services.job_pages.get_node_addresses()
    async for records in visit.services.job_pages.iter_task_batches(job, attempt):
        yield _format_csv([_build_cells(record, addresses) for record in records])


def _format_csv(rows: list[tuple[object, ...]]) -> bytes:
    out = io.StringIO()
    csv.writer(out).writerows([_escape_formula(cell) for cell in row] for row in rows)
    return out.getvalue().encode("utf-8", "replace")


def _escape_formula(cell: object) -> object:
    """Escape text that a spreadsheet would run as a formula."""
    return f"'{cell}" if isinstance(cell, str) and cell.startswith(_FORMULA_PREFIXES) else cell


def _build_cells(record: TaskRecord, addresses: Mapping[str, str]) -> tuple[object, ...]:
    task, exit = record.task, record.task.exit
    ports = " ".join(f"{label}={','.join(map(str, numbers))}" for label, numbers in task.ports.items())
    return (
        *(task.task, task.role, task.index, record.attempt, task.number, task.state.value),
        *(task.machine or "", addresses.get(task.machine or "", ""), ports, " ".join(map(str, task.gpus))),
        *(_format_time(task.placed_at), _format_time(task.started_at), _format_time(task.finished_at)),
        _compute_elapsed_seconds(task.started_at, task.worked_until),
        *(("", "", "", "", "") if exit is None else (
            "" if exit.code is None else exit.code,
            *(exit.kind.value, exit.message, find_meaning(exit).reason, find_hint(exit)),
        )),
        *(task.user_retries, task.platform_retries),
    )  # fmt: skip


def _format_time(at: datetime | None) -> str:
    return "" if at is None else at.strftime("%Y-%m-%dT%H:%M:%SZ")


def _compute_elapsed_seconds(began: datetime | None, ended: datetime | None) -> object:
    return "" if began is None or ended is None else round((ended - began).total_seconds(), 3)
