"""/jobs/{ref}/hold: failed tasks on hold."""

from __future__ import annotations

from datetime import timedelta
from typing import Annotated, Any

from fastapi import Query
from starlette.responses import Response

from holdfast.api import jobs as api
from holdfast.core.errors import UserError
from holdfast.core.messages import msg
from holdfast.jobspec.quantities import MAX_DURATION, parse_duration
from holdfast.services.inside.holds import HeldJob

from ..auth import Caller, ServicesDep
from ..responses import respond_json
from .parameters import parse_time
from .routing import build_router
from .schemas import Body
from .views import format_time, job_summary_to_json, record_to_json

router = build_router("jobs")

TaskName = Annotated[
    str | None, Query(max_length=200, description="Such as worker-0; default: all tasks of the job that are on hold.")
]


@router.get("/jobs/{ref}/hold", response_model=api.Holds)
async def show_holds(ref: str, actor: Caller, services: ServicesDep) -> Response:
    """The tasks of a job that are on hold, until when, and the maximum hold time."""
    return respond_json(_held_job_to_json(await services.holds.get(actor, ref)))


@router.post("/jobs/{ref}/hold", response_model=api.Holds)
async def change_hold(
    ref: str, actor: Caller, services: ServicesDep, body: Body[api.HoldChange] | None = None
) -> Response:
    """Extend the hold, or keep only the files. By default, extend it by the usual hold time, within the maximum."""
    change = body or api.HoldChange()
    until, longer, task = (
        parse_time(change.get("until"), "until"),
        _parse_extension(change.get("for")),
        change.get("task"),
    )
    if change.get("keep") is None:
        return respond_json(
            _held_job_to_json(await services.holds.extend(actor, ref, by=longer, until=until, task=task))
        )
    if until is not None or longer is not None:
        ref = (await services.holds.extend(actor, ref, by=longer, until=until, task=task)).job.id
    return respond_json(_held_job_to_json(await services.holds.keep_files(actor, ref, task=task)))


@router.delete("/jobs/{ref}/hold", response_model=api.ReleasedJob, status_code=202)
async def release_hold(ref: str, actor: Caller, services: ServicesDep, task: TaskName = None) -> Response:
    """Release tasks on hold: they end as failed. If no other task runs, the job ends too."""
    job, released = await services.holds.release(actor, ref, task=task)
    return respond_json({**job_summary_to_json(job), "released": list(released)}, 202)


def _held_job_to_json(found: HeldJob) -> dict[str, Any]:
    tasks = [
        record_to_json(api.HeldTask, each.held, task=each.task, latest=format_time(each.latest)) for each in found.tasks
    ]
    return {"job": found.job.id, "tasks": tasks}


def _parse_extension(given: str | float | None) -> timedelta | None:
    if given is None:
        return None
    span = parse_duration(given) if isinstance(given, str) else timedelta(seconds=min(given, 1e9))
    if span is None or not timedelta() < span <= MAX_DURATION:
        raise UserError(
            msg("The duration of the hold extension is not valid"),
            field="for",
            hint=msg("Use 3d, 12h or a number of seconds."),
        )
    return span
