"""/schedules: jobs that are submitted again and again."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import Query
from starlette.responses import Response

from holdfast.api import schedules as api
from holdfast.api.jobs import SubmittedJob
from holdfast.api.pages import Items
from holdfast.core.schedule import (
    Recurrence,
    RecurrenceKind,
    Run,
    Schedule,
    ScheduleOrder,
    ScheduleQuery,
)
from holdfast.services import Services
from holdfast.services.schedules.recurrence import BadRecurrence
from holdfast.services.schedules.service import ScheduleChange

from ..answers import answer, answer_nothing
from ..auth import Ask, Caller
from .addresses import rest_router
from .parameters import parse_time, split
from .schemas import Body, get_sent_fields
from .views import show_spec, show_summary, show_time

router = rest_router("schedules")

BIG = 2**62
UPCOMING = 5


@router.get("/schedules", response_model=api.SchedulePage)
async def list_schedules(
    actor: Caller,
    services: Ask,
    group: Annotated[list[str] | None, Query(description="a,b; left out: all one may see.")] = None,
    user: Annotated[str | None, Query(max_length=200)] = None,
    mine: Annotated[bool, Query(description="Those one made oneself.")] = False,
    text: Annotated[str | None, Query(max_length=200, description="Part of the name or the id.")] = None,
    order: ScheduleOrder = ScheduleOrder.UPDATED,
    descending: bool = True,
    offset: Annotated[int, Query(ge=0, le=1_000_000)] = 0,
    limit: Annotated[int, Query(ge=1, le=500)] = 50,
) -> Response:
    """Within the groups one may see; those changed last come first."""
    query = ScheduleQuery(
        groups=split(group),
        user=actor.name if mine else user,
        text=text,
        order=order,
        descending=descending,
        offset=offset,
        limit=limit,
    )
    page = await services.schedules.list(actor, query)
    return answer({"items": [_show(services, schedule) for schedule in page.items], "total": page.total})


@router.post("/schedules", response_model=api.ScheduleDetail, status_code=201)
async def add_schedule(body: Body[api.NewSchedule], actor: Caller, services: Ask) -> Response:
    """Its jobs are the caller's, and are submitted with the rights the caller has at each time."""
    given = get_sent_fields(body)
    job, recurrence = given.pop("job"), _recurrence(given.pop("recurrence"))
    ends_at = parse_time(given.pop("ends_at", None), "ends_at")
    made = await services.schedules.create(actor, job, recurrence, ends_at=ends_at, **given)
    return answer(await _show_detail(services, made.schedule, made.warnings), 201)


@router.post("/schedules/preview", response_model=api.Preview)
async def preview_schedule(body: Body[api.PreviewRequest], actor: Caller, services: Ask) -> Response:
    """When a schedule with this recurrence would be due next."""
    recurrence = _recurrence(body["recurrence"])
    ends_at = parse_time(body.get("ends_at"), "ends_at")
    times = await services.schedules.preview(recurrence, body.get("count", UPCOMING), ends_at=ends_at)
    return answer({"timezone": _zone(services, recurrence), "times": [show_time(at) for at in times]})


@router.get("/schedules/{id}", response_model=api.ScheduleDetail)
async def show_schedule(id: str, actor: Caller, services: Ask) -> Response:
    return answer(await _show_detail(services, await services.schedules.get(actor, id)))


@router.patch("/schedules/{id}", response_model=api.ScheduleDetail)
async def change_schedule(id: str, body: Body[api.ScheduleChange], actor: Caller, services: Ask) -> Response:
    """What is given. Its owner stays, whoever changes it."""
    given = get_sent_fields(body, "ends_at")
    if "recurrence" in given:
        given["recurrence"] = _recurrence(given["recurrence"])
    if "ends_at" in given:
        given["ends_at"] = parse_time(given["ends_at"], "ends_at")
    change = ScheduleChange(text=given.pop("job", None), **given)
    changed = await services.schedules.change(actor, id, change)
    return answer(await _show_detail(services, changed.schedule, changed.warnings))


@router.delete("/schedules/{id}", status_code=204)
async def remove_schedule(id: str, actor: Caller, services: Ask) -> Response:
    """With its history; its jobs stay."""
    await services.schedules.delete(actor, id)
    return answer_nothing()


@router.post("/schedules/{id}/run", response_model=SubmittedJob, status_code=201)
async def run_schedule(id: str, actor: Caller, services: Ask) -> Response:
    """One job from its template, now, as whoever asks."""
    done = await services.schedules.run_now(actor, id)
    return answer({**show_summary(done.summary), "warnings": list(done.warnings)}, 201)


@router.get("/schedules/{id}/runs", response_model=Items[api.Run])
async def list_runs(
    id: str,
    actor: Caller,
    services: Ask,
    before: Annotated[int | None, Query(ge=0, le=BIG, description="seq of the last one of the page before.")] = None,
    limit: Annotated[int, Query(ge=1, le=500)] = 50,
) -> Response:
    """What came of each time it was due or was asked to run, newest first."""
    found = await services.schedules.runs(actor, id, before=before, limit=limit)
    return answer({"items": [_show_run(run) for run in found]})


def _recurrence(given: api.Recurrence) -> Recurrence:
    return Recurrence(kind=RecurrenceKind(given.kind), cron=given.cron, timezone=given.timezone)


def _zone(services: Services, recurrence: Recurrence) -> str:
    return recurrence.timezone or services.schedules.timing.timezone


def _show(services: Services, schedule: Schedule) -> dict[str, Any]:
    recurrence = schedule.recurrence
    return {
        "id": schedule.id,
        "name": schedule.name,
        "user": schedule.user,
        "group": schedule.group,
        "recurrence": {"kind": recurrence.kind.value, "cron": recurrence.cron, "timezone": recurrence.timezone},
        "timezone": _zone(services, recurrence),
        "overlap": schedule.overlap.value,
        "missed": schedule.missed.value,
        "ends_at": show_time(schedule.ends_at),
        "paused": schedule.paused,
        "invalid": None if schedule.invalid is None else schedule.invalid.value,
        "message": schedule.message,
        "next_run_at": show_time(schedule.next_run_at),
        "queued_at": show_time(schedule.queued_at),
        "last_run_at": show_time(schedule.last_run_at),
        "created_at": show_time(schedule.created_at),
        "updated_at": show_time(schedule.updated_at),
    }


async def _show_detail(services: Services, schedule: Schedule, warnings: tuple[str, ...] = ()) -> dict[str, Any]:
    return {
        **_show(services, schedule),
        "job": show_spec(schedule.job, paths=False),
        "source": schedule.source,
        "next_runs": await _next_runs(services, schedule),
        "warnings": list(warnings),
    }


async def _next_runs(services: Services, schedule: Schedule) -> list[str | None]:
    if schedule.next_run_at is None:
        return []
    try:
        found = await services.schedules.preview(schedule.recurrence, UPCOMING, ends_at=schedule.ends_at)
    except BadRecurrence:
        return []
    return [show_time(at) for at in found]


def _show_run(run: Run) -> dict[str, Any]:
    return {
        "seq": run.seq,
        "due_at": show_time(run.due_at),
        "at": show_time(run.at),
        "result": run.result.value,
        "job": run.job_id,
        "state": None if run.job_state is None else run.job_state.value,
        "message": run.message,
        "actor": run.actor,
    }
