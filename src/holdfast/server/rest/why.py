"""/jobs/{ref}/why: why a job waits, failed or is slow; /schedules/{id}/why: why a schedule waits."""

from __future__ import annotations

from typing import Any

from starlette.responses import Response

from holdfast.api import why as api
from holdfast.core.messages import get_message_json
from holdfast.core.scheduling.blockers import Blocker, WaitExplanation
from holdfast.services.why.service import JobExplanation

from ..auth import Caller, ServicesDep
from ..responses import respond_json
from .routing import build_router
from .views import record_to_json

router = build_router("jobs")


@router.get("/jobs/{ref}/why", response_model=api.JobExplanation)
async def explain_job(ref: str, actor: Caller, services: ServicesDep) -> Response:
    """Why it waits: all blockers, the jobs that use what it lacks, and suggestions; why it failed, with evidence and
    remedy; what slows it down; its usage compared to its request."""
    return respond_json(explanation_to_json(await services.explanations.explain_job(actor, ref)))


@router.get("/schedules/{id}/why", response_model=api.WaitExplanation)
async def explain_schedule(id: str, actor: Caller, services: ServicesDep) -> Response:
    """Why no job of it runs now: a job that its overlap rule waits for, a pause or an error; or when it is next due."""
    return respond_json(_wait_to_json(await services.schedule_waits.explain_schedule(actor, id)))


def explanation_to_json(why: JobExplanation) -> dict[str, Any]:
    summary = why.job.summary
    return record_to_json(
        api.JobExplanation,
        why,
        job=summary.id,
        name=summary.name,
        state=summary.state,
        message=summary.message,
        message_data=get_message_json(summary.message),
        waiting=_wait_to_json(why.waiting) if why.waiting else None,
    )


def _wait_to_json(wait: WaitExplanation) -> dict[str, Any]:
    return record_to_json(
        api.WaitExplanation,
        wait,
        blockers=[_blocker_to_json(each) for each in wait.blockers],
        ahead=[record_to_json(api.JobAhead, each, job=each.job_id) for each in wait.ahead],
    )


def _blocker_to_json(blocker: Blocker) -> dict[str, Any]:
    holders = [record_to_json(api.ResourceHolder, each, job=each.job_id) for each in blocker.holders]
    return record_to_json(api.Blocker, blocker, holders=holders)
