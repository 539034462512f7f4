"""/jobs/{ref}/metrics and /metrics/now: usage of jobs, over time and now."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import asdict
from hashlib import blake2b
from typing import Annotated, Any

from fastapi import Header, Query
from starlette.responses import Response

from holdfast.api import metrics as api
from holdfast.core.metrics.averaging import MetricsPoint
from holdfast.core.metrics.samples import RING_BUFFER_SPECS, CurrentMetrics
from holdfast.services.metrics.service import CurrentTaskMetrics, CurrentUsage, JobSeries

from ..auth import Caller, ServicesDep
from ..responses import respond_json
from .routing import build_router
from .views import record_to_json, respond_record

router = build_router("metrics")

RingName = Annotated[
    str,
    Query(max_length=20, description="Time range: 15m (a point every 10 s), 1h (30 s), 3h (2 min), lifetime (5 min)."),
]
RoleName = Annotated[str | None, Query(max_length=200, description="The mean over this role's tasks.")]
TaskName = Annotated[
    str | None, Query(max_length=300, description="One task, such as worker-0, with each of its GPUs.")
]
AttemptNumber = Annotated[int | None, Query(ge=0, le=2**31 - 1, description="From 0; default: the newest.")]
KnownETag = Annotated[
    str | None, Header(alias="If-None-Match", max_length=200, description="The ETag of an earlier response.")
]
_NOT_MODIFIED_RESPONSES: dict[int | str, dict[str, Any]] = {
    304: {"description": "Not changed since the response with that ETag."}
}


@router.get("/jobs/{ref}/metrics", response_model=api.MetricSeries, responses=_NOT_MODIFIED_RESPONSES)
async def show_metrics(
    ref: str,
    actor: Caller,
    services: ServicesDep,
    ring: RingName = RING_BUFFER_SPECS[0].name,
    role: RoleName = None,
    task: TaskName = None,
    attempt: AttemptNumber = None,
    known: KnownETag = None,
) -> Response:
    """Usage of a job over time. Each metric is the mean over its tasks and their GPUs; optionally of one role or one
    task only. With the ETag of an earlier response, 304 while there is no new data."""
    found = await services.metrics.load_series(actor, ref, ring, role=role, task=task, attempt=attempt)
    # In a thread: weeks of points would block other requests.
    return await asyncio.to_thread(_respond_series, found, services.metrics.enabled, known)


@router.get("/jobs/{ref}/metrics/now", response_model=api.JobUsage)
async def show_current_metrics(ref: str, actor: Caller, services: ServicesDep) -> Response:
    """The newest metrics of each scheduled task of a job."""
    found = await services.metrics.load_current_metrics(actor, ref)
    tasks = [_current_task_to_json(each) for each in found.tasks]
    return respond_record(
        api.JobUsage, found.job, job=found.job.id, tasks=tasks, total=found.total, measured=services.metrics.enabled
    )


@router.get("/metrics/now", response_model=api.InstallationUsage)
async def show_current_usage(actor: Caller, services: ServicesDep) -> Response:
    """Current usage of running jobs with their tasks; also by group and by node."""
    found = services.metrics.get_current_totals(actor)
    return respond_json(
        {
            "jobs": {id: _current_load_to_json(load) for id, load in found.jobs.items()},
            "groups": {name: _current_load_to_json(load) for name, load in found.groups.items()},
            "nodes": {name: _current_load_to_json(load) for name, load in found.nodes.items()},
            "measured": services.metrics.enabled,
        }
    )


def _respond_series(found: JobSeries, measured: bool, known: str | None) -> Response:
    return _add_etag(respond_json({**series_to_json(found), "measured": measured}), known)


def series_to_json(found: JobSeries) -> dict[str, Any]:
    ring = found.ring
    return {
        "job": found.job_id,
        "attempt": found.attempt,
        "ring": ring.name,
        "interval": ring.seconds,
        "span": None if ring is RING_BUFFER_SPECS[-1] else ring.seconds * ring.points,
        "role": found.role,
        "task": found.task,
        "points": [_point_to_json(point) for point in found.points],
        "tasks": found.tasks,
        "averaged": found.averaged,
        "limits": asdict(found.limits),
        "final": found.final,
    }


def _point_to_json(point: MetricsPoint) -> dict[str, Any]:
    gpus = [{"index": gpu.index, **_round_values(gpu, _GPU_DIGITS)} for gpu in point.gpus]
    return {**_round_values(point, _POINT_DIGITS), "tasks": point.tasks, "gpus": gpus}


def _current_task_to_json(now: CurrentTaskMetrics) -> dict[str, Any]:
    requested = now.requested.resources
    return record_to_json(
        api.TaskUsage,
        now.task,
        cpu_asked=requested.cpu,
        memory_asked=requested.memory,
        gpu_asked=requested.gpu,
        metrics=_current_metrics_to_json(now.current) if now.current else None,
    )


def _current_metrics_to_json(current: CurrentMetrics) -> dict[str, Any]:
    return record_to_json(api.TaskMetrics, current.reading, **_round_values(current.sample, _SAMPLE_DIGITS))


def _current_load_to_json(load: CurrentUsage) -> dict[str, Any]:
    return record_to_json(api.Load, load, **_round_values(load, _LOAD_DIGITS))


# Decimal places; None: a whole number.
_TOTAL_DIGITS = {"cpu": 2, "memory": None, "net_in": 1, "net_out": 1, "disk_read": 1, "disk_written": 1}
_LOAD_DIGITS = {**_TOTAL_DIGITS, "gpu": 2, "gpu_memory": None}
_SAMPLE_DIGITS = {**_TOTAL_DIGITS, "at": 1, "seconds": 1, "throttled": 2, "disk_wait": 2}
_POINT_DIGITS = {**_SAMPLE_DIGITS, "gpu": 2, "gpu_memory": None}
_GPU_DIGITS = {"percent": 2, "memory": None}


def _round_values(record: object, digits: Mapping[str, int | None]) -> dict[str, float | None]:
    values = {name: getattr(record, name) for name in digits}
    return {name: None if value is None else round(value, digits[name]) for name, value in values.items()}


def _add_etag(found: Response, known: str | None) -> Response:
    tag = f'"{blake2b(bytes(found.body), digest_size=12).hexdigest()}"'
    headers = {"ETag": tag, "Cache-Control": "private, no-cache"}
    if known is not None and tag in known:
        return Response(status_code=304, headers=headers)
    found.headers.update(headers)
    return found
