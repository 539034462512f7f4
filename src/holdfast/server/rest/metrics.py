"""/jobs/{ref}/metrics and /metrics/now: what jobs use, over time and now."""

from __future__ import annotations

import asyncio
from dataclasses import asdict
from hashlib import blake2b
from typing import Annotated, Any

from fastapi import Header, Query
from starlette.responses import Response

from holdfast.api import metrics as api
from holdfast.core.metrics.averaging import Point
from holdfast.core.metrics.samples import RINGS, Current
from holdfast.services.metrics.service import JobSeries, Load, TaskNow

from ..answers import answer
from ..auth import Ask, Caller
from .addresses import rest_router

router = rest_router("metrics")

Ring = Annotated[
    str,
    Query(
        max_length=20, description="How far back: 15m (a point every 10 s), 1h (30 s), 3h (2 min), lifetime (5 min)."
    ),
]
RoleName = Annotated[str | None, Query(max_length=200, description="The mean over this role's tasks.")]
TaskName = Annotated[
    str | None, Query(max_length=300, description="One task, such as worker-0, with each of its GPUs.")
]
Attempt = Annotated[int | None, Query(ge=0, le=2**31 - 1, description="From 0; left out: the newest.")]
Known = Annotated[
    str | None, Header(alias="If-None-Match", max_length=200, description="The ETag of an earlier answer.")
]
_SAME: dict[int | str, dict[str, Any]] = {304: {"description": "As in the answer with that ETag."}}


@router.get("/jobs/{ref}/metrics", response_model=api.MetricSeries, responses=_SAME)
async def show_metrics(
    ref: str,
    actor: Caller,
    services: Ask,
    ring: Ring = RINGS[0].name,
    role: RoleName = None,
    task: TaskName = None,
    attempt: Attempt = None,
    known: Known = None,
) -> Response:
    """What a job uses over time. Each figure is the mean over its tasks, and over their GPUs; of one role's or of one
    task alone, if asked. With the ETag of an earlier answer, 304 while nothing was added."""
    found = await services.metrics.series(actor, ref, ring, role=role, task=task, attempt=attempt)
    # Weeks of points are not made into text while everybody else waits.
    return await asyncio.to_thread(_answer_series, found, services.metrics.enabled, known)


@router.get("/jobs/{ref}/metrics/now", response_model=api.JobNow)
async def show_metrics_now(ref: str, actor: Caller, services: Ask) -> Response:
    """The newest figures of each task of a job that is on a machine."""
    found = await services.metrics.now(actor, ref)
    return answer(
        {
            "job": found.job.id,
            "name": found.job.name,
            "state": found.job.state.value,
            "attempt": found.job.attempt,
            "tasks": [_show_task(each) for each in found.tasks],
            "total": found.total,
            "measured": services.metrics.enabled,
        }
    )


@router.get("/metrics/now", response_model=api.PlaceNow)
async def show_place_now(actor: Caller, services: Ask) -> Response:
    """What running jobs use now, each with all its tasks; and the same by group and by machine."""
    found = services.metrics.place_now(actor)
    return answer(
        {
            "jobs": {id: _show_load(load) for id, load in found.jobs.items()},
            "groups": {name: _show_load(load) for name, load in found.groups.items()},
            "nodes": {name: _show_load(load) for name, load in found.nodes.items()},
            "measured": services.metrics.enabled,
        }
    )


def _answer_series(found: JobSeries, measured: bool, known: str | None) -> Response:
    return _fresh(answer({**show_series(found), "measured": measured}), known)


def show_series(found: JobSeries) -> dict[str, Any]:
    lifetime = found.ring is RINGS[-1]
    return {
        "job": found.job_id,
        "attempt": found.attempt,
        "ring": found.ring.name,
        "interval": found.ring.seconds,
        "span": None if lifetime else found.ring.seconds * found.ring.points,
        "role": found.role,
        "task": found.task,
        "points": [_show_point(point) for point in found.points],
        "tasks": found.tasks,
        "averaged": found.averaged,
        "limits": asdict(found.limits),
        "final": found.final,
    }


def _show_point(point: Point) -> dict[str, Any]:
    return {
        "at": round(point.at, 1),
        "seconds": round(point.seconds, 1),
        "tasks": point.tasks,
        "cpu": round(point.cpu, 2),
        "memory": round(point.memory),
        "net_in": round(point.net_in, 1),
        "net_out": round(point.net_out, 1),
        "disk_read": round(point.disk_read, 1),
        "disk_written": round(point.disk_written, 1),
        "throttled": round(point.throttled, 2),
        "disk_wait": round(point.disk_wait, 2),
        "gpu": None if point.gpu is None else round(point.gpu, 2),
        "gpu_memory": None if point.gpu_memory is None else round(point.gpu_memory),
        "gpus": [
            {"index": gpu.index, "percent": round(gpu.percent, 2), "memory": round(gpu.memory)} for gpu in point.gpus
        ],
    }


def _show_task(now: TaskNow) -> dict[str, Any]:
    asked = now.asked.resources
    return {
        "task": now.task.task,
        "role": now.task.role,
        "index": now.task.index,
        "state": now.task.state.value,
        "node": now.task.node,
        "cpu_asked": asked.cpu,
        "memory_asked": asked.memory,
        "gpu_asked": asked.gpu,
        "figures": _show_current(now.current) if now.current else None,
    }


def _show_current(current: Current) -> dict[str, Any]:
    sample, reading = current.sample, current.reading
    return {
        "at": round(sample.at, 1),
        "seconds": round(sample.seconds, 1),
        "cpu": round(sample.cpu, 2),
        "memory": round(sample.memory),
        "memory_limit": reading.memory_limit,
        "swap": reading.swap,
        "processes": reading.processes,
        "net_in": round(sample.net_in, 1),
        "net_out": round(sample.net_out, 1),
        "disk_read": round(sample.disk_read, 1),
        "disk_written": round(sample.disk_written, 1),
        "throttled": round(sample.throttled, 2),
        "disk_wait": round(sample.disk_wait, 2),
        "gpus": [
            {"index": gpu.index, "percent": gpu.percent, "memory": gpu.memory, "memory_total": gpu.memory_total}
            for gpu in reading.gpus
        ],
    }


def _show_load(load: Load) -> dict[str, Any]:
    return {
        "tasks": load.tasks,
        "cpu": round(load.cpu, 2),
        "memory": round(load.memory),
        "net_in": round(load.net_in, 1),
        "net_out": round(load.net_out, 1),
        "disk_read": round(load.disk_read, 1),
        "disk_written": round(load.disk_written, 1),
        "gpus": load.gpus,
        "gpu": None if load.gpu is None else round(load.gpu, 2),
        "gpu_memory": round(load.gpu_memory),
        "gpu_memory_total": load.gpu_memory_total,
    }


def _fresh(found: Response, known: str | None) -> Response:
    tag = f'"{blake2b(bytes(found.body), digest_size=12).hexdigest()}"'
    headers = {"ETag": tag, "Cache-Control": "private, no-cache"}
    if known is not None and tag in known:
        return Response(status_code=304, headers=headers)
    found.headers.update(headers)
    return found
