"""Recurring jobs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from ariadne import MutationType, ObjectType, QueryType

from holdfast.core.errors import NotFound
from holdfast.core.job import Dialect
from holdfast.core.schedule import (
    Invalid,
    Recurrence,
    RecurrenceKind,
    Schedule,
    ScheduleOrder,
    ScheduleQuery,
)
from holdfast.services.schedules.service import ScheduleChange

from ..catalogue.sizes import named_type, size_of
from ..errors import not_found
from ..graphql.call import Call, Info, call_of
from ..graphql.paging import ROWS, asks_cursor, connect, first_order, narrow, numbered, page_number
from ..graphql.scalars import deadline, instant
from .resolvers import command_of, show_new, write_form

Shape = dict[str, Any]

query, mutation, schedule_type = QueryType(), MutationType(), ObjectType("PhSchedule")
BINDABLES = (query, mutation, schedule_type)

MAX_LISTED = 100
ORDERS = {
    "displayName": ScheduleOrder.NAME,
    "groupName": ScheduleOrder.GROUP,
    "userName": ScheduleOrder.USER,
    "nextRunTime": ScheduleOrder.NEXT_RUN,
    "createTime": ScheduleOrder.CREATED,
    "updateTime": ScheduleOrder.UPDATED,
}


# -- looking


@query.field("phSchedule")
async def get_schedule(_: Any, info: Info, where: Shape) -> Shape:
    call = call_of(info)
    return show_schedule(call, await find_schedule(call, where["id"]))


@query.field("phSchedules")
async def list_schedules(_: Any, info: Info, where: Shape | None = None, orderBy: Shape | None = None) -> list[Shape]:
    return await _first_ones(call_of(info), where or {}, orderBy)


@query.field("phSchedulesConnection")
async def connect_schedules(
    _: Any, info: Info, where: Shape | None = None, orderBy: Shape | None = None, **paging: Any
) -> Shape:
    """By cursor, and with conditions that no index knows, among the first ones only; by number, all of them."""
    call, where = call_of(info), where or {}
    if asks_cursor(paging) or any(where.get(name) for name in ("id", "displayName_contains", "userId_in")):
        return connect(await _first_ones(call, where, orderBy), paging)
    number = page_number(paging.get("page"))
    asked = replace(_query(call, where, orderBy), offset=(number - 1) * ROWS, limit=ROWS)
    page = await call.services.schedules.list(call.actor, asked)
    await call.take(len(page.items))
    return numbered([show_schedule(call, each) for each in page.items], page=number, total=page.total)


async def _first_ones(call: Call, where: Shape, order: Shape | None) -> list[Shape]:
    if where.get("id") is not None:
        return [show_schedule(call, await find_schedule(call, where["id"]))]
    page = await call.services.schedules.list(call.actor, replace(_query(call, where, order), limit=MAX_LISTED))
    await call.take(len(page.items))
    left = {name: where.get(name) for name in ("displayName_contains", "userId_in")}
    return [dict(each) for each in narrow([show_schedule(call, each) for each in page.items], left)]


def _query(call: Call, where: Shape, order: Mapping[str, Any] | None) -> ScheduleQuery:
    chosen = first_order(order)
    by, descending = (ORDERS[chosen[0]], chosen[1]) if chosen else (ScheduleOrder.UPDATED, True)
    groups = tuple(name for name in where.get("groupId_in") or () if name is not None)
    return ScheduleQuery(
        groups=groups or None,
        user=call.actor.name if where.get("mine") else None,
        text=where.get("search") or where.get("displayName_contains") or None,
        order=by,
        descending=descending,
    )


async def find_schedule(call: Call, id: str) -> Schedule:
    """By its whole id. What one may not see is not there."""
    try:
        return await call.services.schedules.get(call.actor, id)
    except NotFound:
        raise not_found("phschedules", id) from None


def show_schedule(call: Call, schedule: Schedule) -> Shape:
    job, recurrence = schedule.job, schedule.recurrence
    return {
        "id": schedule.id,
        "displayName": schedule.name,
        "recurrence": {"type": recurrence.kind.value, "cron": recurrence.cron},
        "invalid": schedule.invalid is not None,
        "message": message_of(schedule),
        "command": command_of(job),
        "groupId": schedule.group,
        "groupName": schedule.group,
        "image": job.roles[0].image,
        "userId": schedule.user,
        "userName": schedule.user,
        "activeDeadlineSeconds": deadline(call.services.jobs.time_limit(job)),
        "nextRunTime": None if schedule.invalid else instant(schedule.next_run_at),
        "createTime": instant(schedule.created_at),
        "updateTime": instant(schedule.updated_at),
        "_job": job,
    }


def message_of(schedule: Schedule) -> str | None:
    if schedule.invalid is not None:
        return _invalid(schedule, schedule.invalid)
    if schedule.recurrence.kind is RecurrenceKind.INACTIVE:
        return "This phSchedule is inactive"
    return "This phSchedule is paused" if schedule.paused else schedule.message or None


def _invalid(schedule: Schedule, why: Invalid) -> str:
    told = {
        Invalid.CRON: f"phSchedule recurrence format invalid: {schedule.message}",
        Invalid.TIMEZONE: f"controller cannot create cron job. {schedule.message}",
        Invalid.USER: "User not found",
        Invalid.GROUP: f"Group not found: {schedule.group}",
        Invalid.INSTANCE_TYPE: f"InstanceType not found: {named_type(schedule.job)}",
        Invalid.IMAGE: f"Image not found: {schedule.job.roles[0].image}",
    }
    return told.get(why, schedule.message)


@schedule_type.field("instanceType")
async def show_size(schedule: Shape, info: Info) -> Shape:
    return await size_of(call_of(info), schedule["_job"], gone="")


# -- changing


@mutation.field("createPhSchedule")
async def create_schedule(_: Any, info: Info, data: Shape) -> Shape:
    call = call_of(info)
    form = dict(data)
    recurrence = read_recurrence(form.pop("recurrence", None), Recurrence())
    made = await call.services.schedules.create(
        call.actor, write_form(form), recurrence, dialect=Dialect.PRIMEHUB, accept_invalid=True
    )
    return show_schedule(call, made.schedule)


@mutation.field("updatePhSchedule")
async def update_schedule(_: Any, info: Info, data: Shape, where: Shape) -> Shape:
    call = call_of(info)
    old = await find_schedule(call, where["id"])
    form = {name: value for name, value in data.items() if value is not None}
    recurrence = read_recurrence(form.pop("recurrence", None), old.recurrence)
    change = ScheduleChange(form=form, recurrence=recurrence)
    changed = await call.services.schedules.change(call.actor, old.id, change, accept_invalid=True)
    return show_schedule(call, changed.schedule)


def read_recurrence(given: Shape | None, old: Recurrence) -> Recurrence:
    """Another kind comes with its own cron text, or none; the time zone stays."""
    if not given or given.get("type") is None:
        return replace(old, cron=given["cron"]) if given and "cron" in given else old
    return replace(old, kind=RecurrenceKind(given["type"]), cron=given.get("cron"))


@mutation.field("runPhSchedule")
async def run_schedule(_: Any, info: Info, where: Shape) -> Shape:
    call = call_of(info)
    found = await find_schedule(call, where["id"])
    made = await call.services.schedules.run_now(call.actor, found.id)
    return {"job": await show_new(call, made)}


@mutation.field("deletePhSchedule")
async def delete_schedule(_: Any, info: Info, where: Shape) -> Shape:
    call = call_of(info)
    found = await find_schedule(call, where["id"])
    await call.services.schedules.delete(call.actor, found.id)
    return show_schedule(call, found)
