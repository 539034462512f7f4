"""All tasks of a job as a CSV file, sent as it is read."""

from __future__ import annotations

import csv
import io
from collections.abc import AsyncGenerator, Mapping
from datetime import datetime

from starlette.responses import Response

from holdfast.core.exits.meanings import meaning_of
from holdfast.core.exits.table import hint_for
from holdfast.core.records import TaskRecord
from holdfast.services.jobs.detail import Closeup

from ....access_guard import guard_request, require_job
from ....streams import Stream
from ...visit import Visit
from .tasks import attempt_asked

COLUMNS = (
    *("task", "role", "index", "attempt", "try", "state", "node", "ip", "ports", "gpus"),
    *("placed_at", "started_at", "finished_at", "seconds", "exit_code", "exit_type", "exit_message"),
    *("exit_meaning", "remedy", "retries", "platform_retries"),
)
_FORMULA = ("=", "+", "-", "@", "\t", "\r")  # what makes a spreadsheet compute


async def send_tasks(visit: Visit) -> Response:
    job = await visit.services.closeup.get(visit.who, visit.request.path_params["ref"])
    attempt = attempt_asked(visit, job)
    name = f"{job.record.summary.id}-tasks.csv"
    headers = {"Content-Disposition": f'attachment; filename="{name}"', "Cache-Control": "no-store"}
    guard = guard_request(visit.services, visit.request, require_job(job.record.summary))
    return Stream(_lines(visit, job, attempt), guard=guard, media_type="text/csv; charset=utf-8", headers=headers)


async def _lines(visit: Visit, job: Closeup, attempt: int) -> AsyncGenerator[bytes, None]:
    yield _csv([COLUMNS])
    addresses = visit.services.closeup.addresses()
    async for records in visit.services.closeup.all_tasks(job, attempt):
        yield _csv([_cells(record, addresses) for record in records])


def _csv(rows: list[tuple[object, ...]]) -> bytes:
    out = io.StringIO()
    csv.writer(out).writerows([_safe(cell) for cell in row] for row in rows)
    return out.getvalue().encode("utf-8", "replace")


def _safe(cell: object) -> object:
    """Text that a spreadsheet would take for a formula stays text."""
    return f"'{cell}" if isinstance(cell, str) and cell.startswith(_FORMULA) else cell


def _cells(record: TaskRecord, addresses: Mapping[str, str]) -> tuple[object, ...]:
    task, exit = record.task, record.task.exit
    ports = " ".join(f"{label}={','.join(map(str, numbers))}" for label, numbers in task.ports.items())
    return (
        *(task.task, task.role, task.index, record.attempt, task.number, task.state.value),
        *(task.node or "", addresses.get(task.node or "", ""), ports, " ".join(map(str, task.gpus))),
        *(_time(task.placed_at), _time(task.started_at), _time(task.finished_at)),
        _seconds(task.started_at, task.worked_until),
        *(("", "", "", "", "") if exit is None else (
            "" if exit.code is None else exit.code,
            *(exit.kind.value, exit.message, meaning_of(exit).reason, hint_for(exit)),
        )),
        *(task.user_retries, task.platform_retries),
    )  # fmt: skip


def _time(at: datetime | None) -> str:
    return "" if at is None else at.strftime("%Y-%m-%dT%H:%M:%SZ")


def _seconds(began: datetime | None, ended: datetime | None) -> object:
    return "" if began is None or ended is None else round((ended - began).total_seconds(), 3)
