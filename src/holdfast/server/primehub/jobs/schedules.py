"""Schedules."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from ariadne import MutationType, ObjectType, QueryType

from holdfast.core.job import JobFormat
from holdfast.core.schedule import InvalidReason, Recurrence, RecurrenceKind, Schedule, ScheduleOrder, ScheduleQuery
from holdfast.services.schedules.service import ScheduleChange

from ..catalogue.instance_type_shapes import get_instance_type_name, load_job_instance_type
from ..errors import translate_not_found
from ..graphql.call import Call, Info, get_call
from ..graphql.paging import (
    DEFAULT_PAGE_SIZE,
    build_numbered_page,
    clamp_page_number,
    filter_nodes,
    has_cursor,
    paginate_nodes,
    parse_order,
)
from ..graphql.scalars import format_time, get_deadline_seconds
from ..json_object import JsonObject
from .resolvers import format_job_form, get_command, new_job_to_json

query, mutation, schedule_type = QueryType(), MutationType(), ObjectType("PhSchedule")
BINDABLES = (query, mutation, schedule_type)

MAX_LISTED_SCHEDULES = 100
SCHEDULE_ORDERS = {
    "displayName": ScheduleOrder.NAME,
    "groupName": ScheduleOrder.GROUP,
    "userName": ScheduleOrder.USER,
    "nextRunTime": ScheduleOrder.NEXT_RUN,
    "createTime": ScheduleOrder.CREATED,
    "updateTime": ScheduleOrder.UPDATED,
}


# -- queries


@query.field("phSchedule")
async def get_schedule(_: Any, info: Info, where: JsonObject) -> JsonObject:
    call = get_call(info)
    return schedule_to_json(call, await load_schedule(call, where["id"]))


@query.field("phSchedules")
async def list_schedules(
    _: Any, info: Info, where: JsonObject | None = None, orderBy: JsonObject | None = None
) -> list[JsonObject]:
    return await _list_first_schedules(get_call(info), where or {}, orderBy)


@query.field("phSchedulesConnection")
async def connect_schedules(
    _: Any, info: Info, where: JsonObject | None = None, orderBy: JsonObject | None = None, **paging: Any
) -> JsonObject:
    """Return a page of schedules. With a cursor or unindexed filters, only the first ones are searched."""
    call, where = get_call(info), where or {}
    if has_cursor(paging) or any(where.get(name) for name in ("id", "displayName_contains", "userId_in")):
        return paginate_nodes(await _list_first_schedules(call, where, orderBy), paging)
    number = clamp_page_number(paging.get("page"))
    asked = replace(
        _build_query(call, where, orderBy), offset=(number - 1) * DEFAULT_PAGE_SIZE, limit=DEFAULT_PAGE_SIZE
    )
    page = await call.services.schedules.list(call.actor, asked)
    await call.spend_rows_and_yield(len(page.items))
    return build_numbered_page([schedule_to_json(call, each) for each in page.items], page=number, total=page.total)


async def _list_first_schedules(call: Call, where: JsonObject, order: JsonObject | None) -> list[JsonObject]:
    if where.get("id") is not None:
        return [schedule_to_json(call, await load_schedule(call, where["id"]))]
    page = await call.services.schedules.list(
        call.actor, replace(_build_query(call, where, order), limit=MAX_LISTED_SCHEDULES)
    )
    await call.spend_rows_and_yield(len(page.items))
    left = {name: where.get(name) for name in ("displayName_contains", "userId_in")}
    return [dict(each) for each in filter_nodes([schedule_to_json(call, each) for each in page.items], left)]


def _build_query(call: Call, where: JsonObject, order: Mapping[str, Any] | None) -> ScheduleQuery:
    chosen = parse_order(order)
    by, descending = (SCHEDULE_ORDERS[chosen[0]], chosen[1]) if chosen else (ScheduleOrder.UPDATED, True)
    groups = tuple(name for name in where.get("groupId_in") or () if name is not None)
    return ScheduleQuery(
        groups=groups or None,
        user=call.actor.name if where.get("mine") else None,
        text=where.get("search") or where.get("displayName_contains") or None,
        order=by,
        descending=descending,
    )


async def load_schedule(call: Call, id: str) -> Schedule:
    """Find a schedule by its full ID. A schedule that the caller cannot see is not found."""
    with translate_not_found("phschedules", id):
        return await call.services.schedules.get(call.actor, id)


def schedule_to_json(call: Call, schedule: Schedule) -> JsonObject:
    job, recurrence = schedule.job, schedule.recurrence
    return {
        "id": schedule.id,
        "displayName": schedule.name,
        "recurrence": {"type": recurrence.kind.value, "cron": recurrence.cron},
        "invalid": schedule.invalid is not None,
        "message": get_schedule_message(schedule),
        "command": get_command(job),
        "groupId": schedule.group,
        "groupName": schedule.group,
        "image": job.roles[0].image,
        "userId": schedule.user,
        "userName": schedule.user,
        "activeDeadlineSeconds": get_deadline_seconds(call.services.jobs.get_time_limit(job)),
        "nextRunTime": None if schedule.invalid else format_time(schedule.next_run_at),
        "createTime": format_time(schedule.created_at),
        "updateTime": format_time(schedule.updated_at),
        "_job": job,
    }


def get_schedule_message(schedule: Schedule) -> str | None:
    if schedule.invalid is not None:
        return _describe_invalid_schedule(schedule, schedule.invalid)
    if schedule.recurrence.kind is RecurrenceKind.INACTIVE:
        return "This phSchedule is inactive"
    return "This phSchedule is paused" if schedule.paused else schedule.message or None


def _describe_invalid_schedule(schedule: Schedule, why: InvalidReason) -> str:
    messages = {
        InvalidReason.CRON: f"phSchedule recurrence format invalid: {schedule.message}",
        InvalidReason.TIMEZONE: f"controller cannot create cron job. {schedule.message}",
        InvalidReason.USER: "User not found",
        InvalidReason.GROUP: f"Group not found: {schedule.group}",
        InvalidReason.INSTANCE_TYPE: f"InstanceType not found: {get_instance_type_name(schedule.job)}",
        InvalidReason.IMAGE: f"Image not found: {schedule.job.roles[0].image}",
    }
    return messages.get(why, schedule.message)


@schedule_type.field("instanceType")
async def resolve_instance_type(schedule: JsonObject, info: Info) -> JsonObject:
    return await load_job_instance_type(get_call(info), schedule["_job"], gone="")


# -- mutations


@mutation.field("createPhSchedule")
async def create_schedule(_: Any, info: Info, data: JsonObject) -> JsonObject:
    call = get_call(info)
    form = dict(data)
    recurrence = parse_recurrence(form.pop("recurrence", None), Recurrence())
    made = await call.services.schedules.create(
        call.actor, format_job_form(form), recurrence, dialect=JobFormat.PRIMEHUB, accept_invalid=True
    )
    return schedule_to_json(call, made.schedule)


@mutation.field("updatePhSchedule")
async def update_schedule(_: Any, info: Info, data: JsonObject, where: JsonObject) -> JsonObject:
    call = get_call(info)
    old = await load_schedule(call, where["id"])
    form = {name: value for name, value in data.items() if value is not None}
    recurrence = parse_recurrence(form.pop("recurrence", None), old.recurrence)
    change = ScheduleChange(form=form, recurrence=recurrence)
    changed = await call.services.schedules.change(call.actor, old.id, change, accept_invalid=True)
    return schedule_to_json(call, changed.schedule)


def parse_recurrence(given: JsonObject | None, old: Recurrence) -> Recurrence:
    """Return the new recurrence. Another type needs its own cron text; the time zone stays."""
    if not given or given.get("type") is None:
        return replace(old, cron=given["cron"]) if given and "cron" in given else old
    return replace(old, kind=RecurrenceKind(given["type"]), cron=given.get("cron"))


@mutation.field("runPhSchedule")
async def run_schedule(_: Any, info: Info, where: JsonObject) -> JsonObject:
    call = get_call(info)
    found = await load_schedule(call, where["id"])
    made = await call.services.schedules.run_schedule_now(call.actor, found.id)
    return {"job": await new_job_to_json(call, made)}


@mutation.field("deletePhSchedule")
async def delete_schedule(_: Any, info: Info, where: JsonObject) -> JsonObject:
    call = get_call(info)
    found = await load_schedule(call, where["id"])
    await call.services.schedules.delete(call.actor, found.id)
    return schedule_to_json(call, found)
