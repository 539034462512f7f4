"""/schedules."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import Query
from starlette.responses import Response

from holdfast.api import schedules as api
from holdfast.api.jobs import SubmittedJob
from holdfast.api.pages import ItemList
from holdfast.core.schedule import Recurrence, RecurrenceKind, Schedule, ScheduleOrder, ScheduleQuery
from holdfast.services import Services
from holdfast.services.schedules.recurrence import InvalidRecurrence
from holdfast.services.schedules.service import ScheduleChange

from ..auth import Caller, ServicesDep
from ..responses import respond_empty, respond_json
from .parameters import parse_time, split_values
from .routing import build_router
from .schemas import Body, get_sent_fields
from .views import format_time, job_spec_to_json, job_summary_to_json, record_to_json

router = build_router("schedules")

MAX_INTEGER = 2**62
UPCOMING_COUNT = 5


@router.get("/schedules", response_model=api.SchedulePage)
async def list_schedules(
    actor: Caller,
    services: ServicesDep,
    group: Annotated[list[str] | None, Query(description="a,b; default: all groups that you can see.")] = None,
    user: Annotated[str | None, Query(max_length=200)] = None,
    mine: Annotated[bool, Query(description="Only schedules that you created.")] = False,
    text: Annotated[str | None, Query(max_length=200, description="Part of the name or the ID.")] = None,
    order: ScheduleOrder = ScheduleOrder.UPDATED,
    descending: bool = True,
    offset: Annotated[int, Query(ge=0, le=1_000_000)] = 0,
    limit: Annotated[int, Query(ge=1, le=500)] = 50,
) -> Response:
    """Schedules of the groups that you can see; last changed first."""
    query = ScheduleQuery(
        groups=split_values(group),
        user=actor.name if mine else user,
        text=text,
        order=order,
        descending=descending,
        offset=offset,
        limit=limit,
    )
    page = await services.schedules.list(actor, query)
    return respond_json(
        {"items": [_schedule_to_json(services, schedule) for schedule in page.items], "total": page.total}
    )


@router.post("/schedules", response_model=api.ScheduleDetail, status_code=201)
async def add_schedule(body: Body[api.NewSchedule], actor: Caller, services: ServicesDep) -> Response:
    """Its jobs belong to you, and are submitted with the permissions you have at that time."""
    given = get_sent_fields(body)
    job, recurrence = given.pop("job"), _convert_recurrence(given.pop("recurrence"))
    ends_at = parse_time(given.pop("ends_at", None), "ends_at")
    made = await services.schedules.create(actor, job, recurrence, ends_at=ends_at, **given)
    return respond_json(await _detail_to_json(services, made.schedule, made.warnings), 201)


@router.post("/schedules/preview", response_model=api.SchedulePreview)
async def preview_schedule(body: Body[api.SchedulePreviewRequest], actor: Caller, services: ServicesDep) -> Response:
    """When a schedule with this recurrence would next be due."""
    recurrence = _convert_recurrence(body["recurrence"])
    ends_at = parse_time(body.get("ends_at"), "ends_at")
    times = await services.schedules.preview_times(recurrence, body.get("count", UPCOMING_COUNT), ends_at=ends_at)
    return respond_json({"timezone": _get_time_zone(services, recurrence), "times": [format_time(at) for at in times]})


@router.get("/schedules/{id}", response_model=api.ScheduleDetail)
async def show_schedule(id: str, actor: Caller, services: ServicesDep) -> Response:
    return respond_json(await _detail_to_json(services, await services.schedules.get(actor, id)))


@router.patch("/schedules/{id}", response_model=api.ScheduleDetail)
async def change_schedule(id: str, body: Body[api.ScheduleChange], actor: Caller, services: ServicesDep) -> Response:
    """Changes the given fields. Its owner does not change."""
    given = get_sent_fields(body, "ends_at")
    if "recurrence" in given:
        given["recurrence"] = _convert_recurrence(given["recurrence"])
    if "ends_at" in given:
        given["ends_at"] = parse_time(given["ends_at"], "ends_at")
    change = ScheduleChange(text=given.pop("job", None), **given)
    changed = await services.schedules.change(actor, id, change)
    return respond_json(await _detail_to_json(services, changed.schedule, changed.warnings))


@router.delete("/schedules/{id}", status_code=204)
async def remove_schedule(id: str, actor: Caller, services: ServicesDep) -> Response:
    """Deletes it with its history; its jobs stay."""
    await services.schedules.delete(actor, id)
    return respond_empty()


@router.post("/schedules/{id}/run", response_model=SubmittedJob, status_code=201)
async def run_schedule(id: str, actor: Caller, services: ServicesDep) -> Response:
    """Submit one job from its template now, as you."""
    done = await services.schedules.run_schedule_now(actor, id)
    return respond_json({**job_summary_to_json(done.summary), "warnings": list(done.warnings)}, 201)


@router.get("/schedules/{id}/runs", response_model=ItemList[api.Run])
async def list_runs(
    id: str,
    actor: Caller,
    services: ServicesDep,
    before: Annotated[
        int | None, Query(ge=0, le=MAX_INTEGER, description="seq of the last run on the previous page.")
    ] = None,
    limit: Annotated[int, Query(ge=1, le=500)] = 50,
) -> Response:
    """The runs of a schedule and their results, newest first."""
    found = await services.schedules.list_runs(actor, id, before=before, limit=limit)
    items = [record_to_json(api.Run, run, job=run.job_id, state=run.job_state) for run in found]
    return respond_json({"items": items})


def _convert_recurrence(given: api.Recurrence) -> Recurrence:
    return Recurrence(kind=RecurrenceKind(given.kind), cron=given.cron, timezone=given.timezone)


def _get_time_zone(services: Services, recurrence: Recurrence) -> str:
    return recurrence.timezone or services.schedules.timing.timezone


def _schedule_to_json(services: Services, schedule: Schedule) -> dict[str, Any]:
    return record_to_json(api.Schedule, schedule, timezone=_get_time_zone(services, schedule.recurrence))


async def _detail_to_json(services: Services, schedule: Schedule, warnings: tuple[str, ...] = ()) -> dict[str, Any]:
    return record_to_json(
        api.ScheduleDetail,
        schedule,
        timezone=_get_time_zone(services, schedule.recurrence),
        job=job_spec_to_json(schedule.job, paths=False),
        next_runs=await _list_next_run_times(services, schedule),
        warnings=list(warnings),
    )


async def _list_next_run_times(services: Services, schedule: Schedule) -> list[str | None]:
    if schedule.next_run_at is None:
        return []
    try:
        found = await services.schedules.preview_times(schedule.recurrence, UPCOMING_COUNT, ends_at=schedule.ends_at)
    except InvalidRecurrence:
        return []
    return [format_time(at) for at in found]
