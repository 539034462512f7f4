"""Jobs: queries and mutations."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from ariadne import MutationType, ObjectType, QueryType

from holdfast.core.job import Job, JobFormat
from holdfast.services.jobs.service import SubmitResult
from holdfast.store.jobs.records import JobDetail

from ..catalogue.instance_type_shapes import load_job_instance_type
from ..errors import PrimeHubError, build_not_auth_error, build_resource_not_found_error, translate_not_found
from ..graphql.call import Call, Info, get_call
from ..graphql.paging import build_cursor_page, build_numbered_page, paginate_nodes
from ..graphql.scalars import format_exact_time, format_time, get_deadline_seconds
from ..json_object import JsonObject
from .listing import JobList
from .monitoring import metrics_to_json
from .states import get_job_status

query, mutation, job_type = QueryType(), MutationType(), ObjectType("PhJob")
BINDABLES = (query, mutation, job_type)

MAX_LISTED_JOBS = 100


# -- queries


@query.field("phJob")
async def get_job(_: Any, info: Info, where: JsonObject) -> JsonObject:
    call = get_call(info)
    return job_to_json(call, await load_job_detail(call, where["id"]))


@query.field("phJobs")
async def list_jobs(
    _: Any, info: Info, where: JsonObject | None = None, orderBy: JsonObject | None = None
) -> list[JsonObject]:
    call = get_call(info)
    if where and where.get("id") is not None:
        return [job_to_json(call, await load_job_detail(call, where["id"]))]
    found, _total = await JobList(call, where, orderBy).load_rows(0, MAX_LISTED_JOBS)
    await call.spend_rows_and_yield(len(found))
    return [job_to_json(call, detail) for detail in found]


@query.field("phJobsConnection")
async def connect_jobs(
    _: Any, info: Info, where: JsonObject | None = None, orderBy: JsonObject | None = None, **paging: Any
) -> JsonObject:
    call = get_call(info)
    if where and where.get("id") is not None:
        return paginate_nodes([job_to_json(call, await load_job_detail(call, where["id"]))], paging)
    page = await JobList(call, where, orderBy).load_page(paging)
    await call.spend_rows_and_yield(len(page.rows))
    nodes = [job_to_json(call, detail) for detail in page.rows]
    if page.total is None:
        return build_cursor_page(nodes, more_before=page.more_before, more_after=page.more_after)
    return build_numbered_page(nodes, page=page.number, total=page.total)


async def load_job_detail(call: Call, id: str) -> JobDetail:
    """Find a job by its full ID. A job that the caller cannot see is not found."""
    with translate_not_found("phjobs", id):
        found = await call.services.jobs.load_detail(call.actor, id)
    if found.summary.id != id:
        raise build_resource_not_found_error("phjobs", id)
    return found


def job_to_json(call: Call, detail: JobDetail, *, waiting: Sequence[str] | None = None) -> JsonObject:
    """Return a job. Fields that need more queries have resolvers of their own below."""
    summary, job = detail.summary, detail.job
    if waiting is None:
        waiting = call.list_wait_reasons(detail)
    if detail.exit is not None and summary.task_count == 1:
        summary = replace(summary, message=detail.exit.message)  # without the name of its only task
    status = get_job_status(summary, image=job.roles[0].image, waiting=waiting)
    return {
        "id": summary.id,
        "displayName": summary.name,
        "cancel": status.phase == "Cancelled",
        "command": get_command(job),
        "groupId": summary.group,
        "groupName": summary.group,
        "schedule": summary.schedule,
        "image": job.roles[0].image,
        "userId": summary.user,
        "userName": summary.user,
        "phase": status.phase,
        "reason": status.reason,
        "message": status.message,
        "createTime": format_time(summary.submitted_at),
        "startTime": format_time(summary.started_at),
        "finishTime": format_time(summary.finished_at),
        "activeDeadlineSeconds": get_deadline_seconds(call.services.jobs.get_time_limit(job)),
        "_job": job,
        "_summary": summary,
    }


def get_command(job: Job) -> str:
    """Return the command; of a job with several roles, that of the first."""
    return "\n".join(job.roles[0].commands)


@job_type.field("instanceType")
async def resolve_instance_type(job: JsonObject, info: Info) -> JsonObject:
    return await load_job_instance_type(get_call(info), job["_job"], gone="-not-found")


@job_type.field("logEndpoint")
def resolve_log_endpoint(job: JsonObject, info: Info) -> str:
    return f"{get_call(info).origin}/api/logs/namespaces/hub/phjobs/{job['id']}"


@job_type.field("artifact")
async def resolve_artifacts(job: JsonObject, info: Info) -> JsonObject:
    call = get_call(info)
    found = await call.load_once(
        ("artifacts", job["id"]), lambda: call.services.artifacts.list_job_artifacts(job["_summary"])
    )
    call.spend_rows(len(found.items))
    items = [
        {"name": each.name, "size": each.size, "lastModified": format_exact_time(each.modified_at)}
        for each in found.items
    ]
    return {"prefix": found.prefix, "items": items}


@job_type.field("monitoring")
async def resolve_monitoring(job: JsonObject, info: Info) -> JsonObject | None:
    call, summary = get_call(info), job["_summary"]
    metrics, spec = call.services.metrics, job["_job"]
    found = await call.load_once(
        ("monitoring", job["id"]), lambda: metrics.load_first_task_series(summary.id, summary.attempt, spec)
    )
    if found is None or not any(found.rings.values()):
        return None
    call.spend_values(sum(len(points) for points in found.rings.values()))
    return await asyncio.to_thread(metrics_to_json, found, spec)


# -- mutations


@mutation.field("createPhJob")
async def create_job(_: Any, info: Info, data: JsonObject) -> JsonObject:
    call = get_call(info)
    made = await call.services.jobs.submit(call.actor, format_job_form(data), dialect=JobFormat.PRIMEHUB)
    return await new_job_to_json(call, made)


@mutation.field("rerunPhJob")
async def rerun_job(_: Any, info: Info, where: JsonObject) -> JsonObject:
    call = get_call(info)
    old = await load_job_detail(call, where["id"])
    made = await call.services.jobs.rerun(call.actor, old.summary.id)
    return await new_job_to_json(call, made)


@mutation.field("cancelPhJob")
async def cancel_job(_: Any, info: Info, where: JsonObject) -> JsonObject:
    call = get_call(info)
    found = await load_job_detail(call, where["id"])
    await call.services.jobs.stop(call.actor, found.summary.id)
    return {"id": found.summary.id}


@mutation.field("cleanupPhJobArtifact")
async def clean_up_artifacts(_: Any, info: Info) -> int:
    call = get_call(info)
    if not call.actor.admin:
        raise build_not_auth_error()
    await call.services.artifact_cleanup.delete_expired_artifacts(call.actor)
    return 0


@mutation.field("notifyPhJobEvent")
def refuse_notify(_: Any, info: Info, data: Any = None) -> int:
    raise PrimeHubError("Only PrimeHub's internal services can send job events", "NOT_AUTH")


def format_job_form(data: JsonObject) -> str:
    """Return the text of a job file; null fields are omitted."""
    return json.dumps({name: value for name, value in data.items() if value is not None}, ensure_ascii=False)


async def new_job_to_json(call: Call, made: SubmitResult) -> JsonObject:
    """Return the job as submitted, without its progress since then."""
    detail = await call.services.jobs.load_detail(call.actor, made.summary.id)
    return job_to_json(call, replace(detail, summary=made.summary), waiting=())
