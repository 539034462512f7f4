"""Pages of OpenPAI's portal."""

from __future__ import annotations

from urllib.parse import quote

from starlette.responses import Response

from holdfast.core.states import JobState

from ...jobs.filters import MAX_LENGTH, Filters
from ...routes import page
from ...visit import Visit
from ..job.view import job_address

ME = "@Me"  # as its job list names whoever looks
STATES = {  # its words for states -> ours
    "waiting": (JobState.PENDING, JobState.PREPARING),
    "running": (JobState.RUNNING, JobState.HELD),
    "stopping": (JobState.RUNNING, JobState.HELD),
    "succeeded": (JobState.SUCCEEDED,),
    "failed": (JobState.FAILED,),
    "stopped": (JobState.CANCELLED,),
}


async def home(visit: Visit) -> Response:
    return visit.go("/")


async def job_list(visit: Visit) -> Response:
    asked = visit.request.query_params
    states = [state for word in asked.get("status", "").split(",") for state in STATES.get(word.strip().lower(), ())]
    user = asked.get("user", "").split(",")[0].strip()[:MAX_LENGTH]
    mine = user in (ME, visit.who.name)
    filters = Filters(
        groups=tuple(filter(None, asked.get("vcName", "")[:MAX_LENGTH].split(","))),
        mine=mine,
        user="" if mine else user,
        states=tuple(state for state in JobState if state in states),
        text=asked.get("keyword", "").strip()[:MAX_LENGTH],
    )
    return visit.go(filters.address)


async def submit(visit: Visit) -> Response:
    """With ?op=resubmit the clone of a job, by its user and name."""
    asked = visit.request.query_params
    name = asked.get("jobName") or asked.get("jobname") or ""
    if asked.get("op") != "resubmit" or not name:
        return visit.go("/jobs/new")
    job = await visit.services.jobs.named(visit.who, asked.get("user") or asked.get("username") or "", name)
    return visit.go(f"/jobs/new?clone={quote(job.id)}")


# -- one job, by user and name


async def job_detail(visit: Visit) -> Response:
    attempt = visit.number("jobAttemptIndex")
    return await _to_job(visit, section="" if attempt is None else "tasks", attempt=attempt)


async def job_events(visit: Visit) -> Response:
    return await _to_job(visit, section="events")


async def task_attempts(visit: Visit) -> Response:
    role = visit.request.query_params.get("taskRoleName", "")[:200]
    task = f"{role}-{visit.number('taskIndex') or 0}" if role else ""
    return await _to_job(visit, section="tasks", attempt=visit.number("jobAttemptIndex"), task=task)


async def _to_job(visit: Visit, **more: str | int | None) -> Response:
    asked = visit.request.query_params
    job = await visit.services.jobs.named(visit.who, asked.get("username", ""), asked.get("jobName", ""))
    return visit.go(job_address(job.id, more))


# -- people and groups


async def groups(visit: Visit) -> Response:
    return visit.go("/groups")


async def users(visit: Visit) -> Response:
    return visit.go("/admin/users")


async def user_import(visit: Visit) -> Response:
    return visit.go("/admin/users/import")


async def account(visit: Visit) -> Response:
    return visit.go("/me")


async def place(visit: Visit) -> Response:
    """Where its dashboards were."""
    return visit.go("/admin/place")


routes = [
    page("/home.html", home),
    page("/index.html", home),
    page("/job-list.html", job_list),
    page("/submit.html", submit),
    page("/job-detail.html", job_detail),
    page("/job-event.html", job_events),
    page("/task-attempt.html", task_attempts),
    page("/virtual-clusters.html", groups),
    page("/user-view.html", users, admin=True),
    page("/batch-register.html", user_import, admin=True),
    page("/user-profile.html", account),
    page("/cluster-view/{name}", place, admin=True),
    page("/dashboard.html", place, admin=True),
]
