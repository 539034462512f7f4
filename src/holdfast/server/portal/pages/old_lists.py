"""Addresses by which OpenPAI's and PrimeHub's portals showed lists of jobs: bookmarks and links go on working."""

from __future__ import annotations

from starlette.responses import Response

from holdfast.core.identity import group_path
from holdfast.core.states import JobState

from ..job_filters import LONGEST, Filters
from ..routes import page
from ..visit import Visit

ME = "@Me"  # as OpenPAI's list names whoever looks
# OpenPAI's words for states -> ours.
STATES = {
    "waiting": (JobState.PENDING, JobState.PREPARING),
    "running": (JobState.RUNNING, JobState.HELD),
    "stopping": (JobState.RUNNING, JobState.HELD),
    "succeeded": (JobState.SUCCEEDED,),
    "failed": (JobState.FAILED,),
    "stopped": (JobState.CANCELLED,),
}


async def from_openpai(visit: Visit) -> Response:
    asked = visit.request.query_params
    states = [state for word in asked.get("status", "").split(",") for state in STATES.get(word.strip().lower(), ())]
    user = asked.get("user", "").split(",")[0].strip()[:LONGEST]
    mine = user in (ME, visit.who.name)
    filters = Filters(
        groups=tuple(filter(None, asked.get("vcName", "")[:LONGEST].split(","))),
        mine=mine,
        user="" if mine else user,
        states=tuple(state for state in JobState if state in states),
        text=asked.get("keyword", "").strip()[:LONGEST],
    )
    return visit.go(filters.address)


async def from_primehub(visit: Visit) -> Response:
    return visit.go(Filters(groups=await groups_at(visit, visit.request.path_params["group"])).address)


async def groups_at(visit: Visit, path: str) -> tuple[str, ...]:
    """The groups that PrimeHub's paths name so; several may share one."""
    known = [group.name for group in await visit.services.groups.list(visit.who)]
    return tuple(name for name in known if group_path(name) == group_path(path)) or (path[:LONGEST],)


async def to_home(visit: Visit) -> Response:
    return visit.go("/")


routes = [
    page("/job-list.html", from_openpai),
    page("/console/g/{group}/job", from_primehub),
    page("/console", to_home),
    page("/console/", to_home),
]
