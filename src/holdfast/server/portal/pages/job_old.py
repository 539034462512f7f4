"""Where OpenPAI and PrimeHub had their pages of one job: links that people kept lead to ours."""

from __future__ import annotations

from typing import Any

from starlette.responses import RedirectResponse, Response

from ..routes import page
from ..visit import Visit, own_path
from .job_view import job_address


async def _from_openpai(visit: Visit, **more: Any) -> Response:
    """By user and name, as OpenPAI's pages were asked."""
    query = visit.request.query_params
    job = await visit.services.jobs.named(visit.who, query.get("username", ""), query.get("jobName", ""))
    return RedirectResponse(own_path(job_address(job.id, **more)), 302)


async def job_detail(visit: Visit) -> Response:
    attempt = _number(visit, "jobAttemptIndex")
    return await _from_openpai(visit, section="tasks" if attempt else "", attempt=attempt)


async def job_events(visit: Visit) -> Response:
    return await _from_openpai(visit, section="events")


async def task_attempts(visit: Visit) -> Response:
    query = visit.request.query_params
    role, index = query.get("taskRoleName", "")[:200], _number(visit, "taskIndex")
    task = f"{role}-{index or 0}" if role else ""
    return await _from_openpai(visit, section="tasks", attempt=_number(visit, "jobAttemptIndex"), task=task)


def _number(visit: Visit, name: str) -> str:
    text = visit.request.query_params.get(name, "")
    return text if text.isascii() and text.isdecimal() and len(text) <= 7 else ""


async def primehub_job(visit: Visit) -> Response:
    job = await visit.services.closeup.get(visit.who, visit.request.path_params["ref"])
    return RedirectResponse(own_path(job_address(job.record.summary.id)), 302)


routes = [
    page("/job-detail.html", job_detail),
    page("/job-event.html", job_events),
    page("/task-attempt.html", task_attempts),
    page("/console/g/{group}/job/{ref}", primehub_job),
]
