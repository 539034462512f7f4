"""/jobs/{ref}/hold: failed tasks that are kept."""

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

from ..answers import answer
from ..auth import Ask, Caller
from .addresses import rest_router
from .parameters import parse_time
from .schemas import Body
from .views import show_held, show_summary, show_time

router = rest_router("jobs")

TaskName = Annotated[
    str | None, Query(max_length=200, description="Such as worker-0; left out: all of the job that are held.")
]


@router.get("/jobs/{ref}/hold", response_model=api.Holds)
async def show_hold(ref: str, actor: Caller, services: Ask) -> Response:
    """What of a job is held now, until when, and how long it can be at most."""
    return answer(_show(await services.holds.get(actor, ref)))


@router.post("/jobs/{ref}/hold", response_model=api.Holds)
async def change_hold(ref: str, actor: Caller, services: Ask, body: Body[api.HoldChange] | None = None) -> Response:
    """Hold longer, or keep only the files on. With nothing said, hold as long again as is usual, if that may be."""
    change = body or api.HoldChange()
    until, longer, task = parse_time(change.get("until"), "until"), _longer(change.get("for")), change.get("task")
    if change.get("keep") is None:
        return answer(_show(await services.holds.extend(actor, ref, by=longer, until=until, task=task)))
    if until is not None or longer is not None:
        ref = (await services.holds.extend(actor, ref, by=longer, until=until, task=task)).job.id
    return answer(_show(await services.holds.keep_files(actor, ref, task=task)))


@router.delete("/jobs/{ref}/hold", response_model=api.Released, status_code=202)
async def release_hold(ref: str, actor: Caller, services: Ask, task: TaskName = None) -> Response:
    """Let held tasks go: they end as failed as they were. When nothing else of the job runs, it ends too."""
    job, released = await services.holds.release(actor, ref, task=task)
    return answer({**show_summary(job), "released": list(released)}, 202)


def _show(found: HeldJob) -> dict[str, Any]:
    tasks = [
        {"task": each.task, **(show_held(each.held) or {}), "latest": show_time(each.latest)} for each in found.tasks
    ]
    return {"job": found.job.id, "tasks": tasks}


def _longer(given: str | float | None) -> timedelta | None:
    if given is None:
        return None
    span = parse_duration(given) if isinstance(given, str) else timedelta(seconds=min(given, 1e9))
    if span is None or not timedelta() < span <= MAX_DURATION:
        raise UserError(msg("That is not a time to hold it longer"), field="for", hint=msg("Write 3d, 12h or seconds."))
    return span
