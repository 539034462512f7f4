"""Jobs: one, lists of them, and what can be done with them."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from ariadne import MutationType, ObjectType, QueryType

from holdfast.core.errors import NotFound
from holdfast.core.job import Dialect, Job
from holdfast.services.jobs.service import Submitted
from holdfast.store.jobs.records import JobDetail

from ..catalogue.sizes import size_of
from ..errors import PhError, not_auth, not_found
from ..graphql.call import Call, Info, call_of
from ..graphql.paging import around, connect, numbered
from ..graphql.scalars import deadline, exact_instant, instant
from .listing import JobList
from .monitoring import show_figures
from .states import words_of

Shape = dict[str, Any]

query, mutation, job_type = QueryType(), MutationType(), ObjectType("PhJob")
BINDABLES = (query, mutation, job_type)

MAX_LISTED = 100


# -- looking


@query.field("phJob")
async def get_job(_: Any, info: Info, where: Shape) -> Shape:
    call = call_of(info)
    return show_job(call, await find_job(call, where["id"]))


@query.field("phJobs")
async def list_jobs(_: Any, info: Info, where: Shape | None = None, orderBy: Shape | None = None) -> list[Shape]:
    call = call_of(info)
    if where and where.get("id") is not None:
        return [show_job(call, await find_job(call, where["id"]))]
    found, _total = await JobList(call, where, orderBy).from_number(0, MAX_LISTED)
    await call.take(len(found))
    return [show_job(call, detail) for detail in found]


@query.field("phJobsConnection")
async def connect_jobs(
    _: Any, info: Info, where: Shape | None = None, orderBy: Shape | None = None, **paging: Any
) -> Shape:
    call = call_of(info)
    if where and where.get("id") is not None:
        return connect([show_job(call, await find_job(call, where["id"]))], paging)
    page = await JobList(call, where, orderBy).page(paging)
    await call.take(len(page.rows))
    nodes = [show_job(call, detail) for detail in page.rows]
    if page.total is None:
        return around(nodes, more_before=page.more_before, more_after=page.more_after)
    return numbered(nodes, page=page.number, total=page.total)


async def find_job(call: Call, id: str) -> JobDetail:
    """By its whole id. What one may not see is not there."""
    try:
        found = await call.services.jobs.record(call.actor, id)
    except NotFound:
        raise not_found("phjobs", id) from None
    if found.summary.id != id:
        raise not_found("phjobs", id)
    return found


def show_job(call: Call, detail: JobDetail, *, waiting: Sequence[str] | None = None) -> Shape:
    """What costs more than a look at the record is left to resolvers below."""
    summary, job = detail.summary, detail.job
    if waiting is None:
        waiting = call.waiting(detail)
    if detail.exit is not None and summary.task_count == 1:
        summary = replace(summary, message=detail.exit.message)  # without the name of its only task
    words = words_of(summary, image=job.roles[0].image, waiting=waiting)
    return {
        "id": summary.id,
        "displayName": summary.name,
        "cancel": words.phase == "Cancelled",
        "command": command_of(job),
        "groupId": summary.group,
        "groupName": summary.group,
        "schedule": summary.schedule,
        "image": job.roles[0].image,
        "userId": summary.user,
        "userName": summary.user,
        "phase": words.phase,
        "reason": words.reason,
        "message": words.message,
        "createTime": instant(summary.submitted_at),
        "startTime": instant(summary.started_at),
        "finishTime": instant(summary.finished_at),
        "activeDeadlineSeconds": deadline(call.services.jobs.time_limit(job)),
        "_job": job,
        "_summary": summary,
    }


def command_of(job: Job) -> str:
    """Of a job with several roles, the first one's."""
    return "\n".join(job.roles[0].commands)


@job_type.field("instanceType")
async def show_size(job: Shape, info: Info) -> Shape:
    return await size_of(call_of(info), job["_job"], gone="-not-found")


@job_type.field("logEndpoint")
def show_log_address(job: Shape, info: Info) -> str:
    return f"{call_of(info).origin}/api/logs/namespaces/hub/phjobs/{job['id']}"


@job_type.field("artifact")
async def show_artifacts(job: Shape, info: Info) -> Shape:
    call = call_of(info)
    found = await call.once(("artifacts", job["id"]), lambda: call.services.artifacts.of(job["_summary"]))
    call.spend(len(found.items))
    items = [
        {"name": each.name, "size": each.size, "lastModified": exact_instant(each.modified_at)} for each in found.items
    ]
    return {"prefix": found.prefix, "items": items}


@job_type.field("monitoring")
async def show_monitoring(job: Shape, info: Info) -> Shape | None:
    call, summary = call_of(info), job["_summary"]
    metrics, spec = call.services.metrics, job["_job"]
    found = await call.once(("monitoring", job["id"]), lambda: metrics.first_task(summary.id, summary.attempt, spec))
    if found is None or not any(found.rings.values()):
        return None
    call.spend_values(sum(len(points) for points in found.rings.values()))
    return await asyncio.to_thread(show_figures, found, spec)


# -- acting


@mutation.field("createPhJob")
async def create_job(_: Any, info: Info, data: Shape) -> Shape:
    call = call_of(info)
    made = await call.services.jobs.submit(call.actor, write_form(data), dialect=Dialect.PRIMEHUB)
    return await show_new(call, made)


@mutation.field("rerunPhJob")
async def rerun_job(_: Any, info: Info, where: Shape) -> Shape:
    call = call_of(info)
    old = await find_job(call, where["id"])
    made = await call.services.jobs.rerun(call.actor, old.summary.id)
    return await show_new(call, made)


@mutation.field("cancelPhJob")
async def cancel_job(_: Any, info: Info, where: Shape) -> Shape:
    call = call_of(info)
    found = await find_job(call, where["id"])
    await call.services.jobs.stop(call.actor, found.summary.id)
    return {"id": found.summary.id}


@mutation.field("cleanupPhJobArtifact")
async def clean_up(_: Any, info: Info) -> int:
    call = call_of(info)
    if not call.actor.admin:
        raise not_auth()
    await call.services.artifact_sweep.sweep(call.actor)
    return 0


@mutation.field("notifyPhJobEvent")
def notify(_: Any, info: Info, data: Any = None) -> int:
    raise PhError("Only PrimeHub's own parts may tell of jobs", "NOT_AUTH")


def write_form(data: Shape) -> str:
    """The text of a job file; what is null was not given."""
    return json.dumps({name: value for name, value in data.items() if value is not None}, ensure_ascii=False)


async def show_new(call: Call, made: Submitted) -> Shape:
    """As it was submitted: how far it has come meanwhile is another question."""
    detail = await call.services.jobs.record(call.actor, made.summary.id)
    return show_job(call, replace(detail, summary=made.summary), waiting=())
