"""Redirects from the pages of OpenPAI's portal."""

from __future__ import annotations

from urllib.parse import quote

from starlette.responses import Response

from holdfast.core.states import JobState

from ...jobs.filters import MAX_FILTER_LENGTH, JobListFilters
from ...routes import build_page_route, build_redirect_route
from ...visit import Visit
from ..job.view import build_job_address

CURRENT_USER = "@Me"  # the current user in its job list
STATES_BY_NAME = {  # its state names -> ours
    "waiting": (JobState.PENDING, JobState.PREPARING),
    "running": (JobState.RUNNING, JobState.HELD),
    "stopping": (JobState.RUNNING, JobState.HELD),
    "succeeded": (JobState.SUCCEEDED,),
    "failed": (JobState.FAILED,),
    "stopped": (JobState.CANCELLED,),
}


async def redirect_job_list(visit: Visit) -> Response:
    query = visit.query
    states = [
        state for name in query.get("status", "").split(",") for state in STATES_BY_NAME.get(name.strip().lower(), ())
    ]
    user = query.get("user", "").split(",")[0].strip()[:MAX_FILTER_LENGTH]
    mine = user in (CURRENT_USER, visit.current_actor.name)
    filters = JobListFilters(
        groups=tuple(filter(None, query.get("vcName", "")[:MAX_FILTER_LENGTH].split(","))),
        mine=mine,
        user="" if mine else user,
        states=tuple(state for state in JobState if state in states),
        text=query.get("keyword", "").strip()[:MAX_FILTER_LENGTH],
    )
    return visit.redirect(filters.address)


async def redirect_submit(visit: Visit) -> Response:
    """Redirect to the new job page; with ?op=resubmit, to the clone of a job."""
    query = visit.query
    name = query.get("jobName") or query.get("jobname") or ""
    if query.get("op") != "resubmit" or not name:
        return visit.redirect("/jobs/new")
    job = await visit.services.jobs.find_by_name(
        visit.current_actor, query.get("user") or query.get("username") or "", name
    )
    return visit.redirect(f"/jobs/new?clone={quote(job.id)}")


# -- one job, by user and name


async def redirect_job_detail(visit: Visit) -> Response:
    attempt = visit.get_query_integer("jobAttemptIndex")
    return await _redirect_to_job(visit, section="" if attempt is None else "tasks", attempt=attempt)


async def redirect_job_events(visit: Visit) -> Response:
    return await _redirect_to_job(visit, section="events")


async def redirect_task_attempts(visit: Visit) -> Response:
    role = visit.query.get("taskRoleName", "")[:200]
    task = f"{role}-{visit.get_query_integer('taskIndex') or 0}" if role else ""
    return await _redirect_to_job(visit, section="tasks", attempt=visit.get_query_integer("jobAttemptIndex"), task=task)


async def _redirect_to_job(visit: Visit, **parameters: str | int | None) -> Response:
    query = visit.query
    job = await visit.services.jobs.find_by_name(
        visit.current_actor, query.get("username", ""), query.get("jobName", "")
    )
    return visit.redirect(build_job_address(job.id, parameters))


routes = [
    build_redirect_route("/home.html", "/"),
    build_redirect_route("/index.html", "/"),
    build_page_route("/job-list.html", redirect_job_list),
    build_page_route("/submit.html", redirect_submit),
    build_page_route("/job-detail.html", redirect_job_detail),
    build_page_route("/job-event.html", redirect_job_events),
    build_page_route("/task-attempt.html", redirect_task_attempts),
    build_redirect_route("/virtual-clusters.html", "/groups"),
    build_redirect_route("/user-view.html", "/admin/users", admin=True),
    build_redirect_route("/batch-register.html", "/admin/users/import", admin=True),
    build_redirect_route("/user-profile.html", "/me"),
    build_redirect_route("/cluster-view/{name}", "/admin/installation", admin=True),
    build_redirect_route("/dashboard.html", "/admin/installation", admin=True),
]
