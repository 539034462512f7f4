"""The home page: your jobs, usage of your groups, and capacity of the machines."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from starlette.responses import Response

from holdfast.core.conditions import Condition
from holdfast.core.exits.exit import Exit, ExitKind
from holdfast.core.records import JobSummary
from holdfast.core.schedule import ScheduleOrder, ScheduleQuery
from holdfast.core.scheduling.placement import Quota, ResourceAmount
from holdfast.core.states import JobState
from holdfast.engines.base import Isolation
from holdfast.services.installation.status import Capacity
from holdfast.services.jobs.overview import MAX_COUNTED, OwnJobs

from ...origin import get_origin
from ..jobs.filters import JobListFilters
from ..jobs.first_job import FirstJob, build_first_job
from ..routes import build_page_route
from ..schedule_views import ScheduleView, build_schedule_view
from ..usage_lines import UsageBars, build_node_lines, build_quota_lines
from ..visit import Visit
from .job.verdict import FailureView, build_failure_view
from .job.view import ExitDescription, describe_exit

RECENT_RANGE = "7d"  # the name of services.overview.RECENT in the job list
ACTIVE_STATES = (JobState.RUNNING, JobState.PENDING, JobState.PREPARING, JobState.HELD)
RECENT_STATES = (JobState.SUCCEEDED, JobState.FAILED, JobState.CANCELLED)
MAX_SHOWN_GROUPS = 4
MAX_SHOWN_NODES = 6
MAX_UPCOMING_SCHEDULES = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class StateTile:
    state: JobState
    count: str
    href: str

    @property
    def has_jobs(self) -> bool:
        return self.count != "0"


@dataclass(frozen=True, slots=True, kw_only=True)
class HeldJob:
    job: JobSummary
    until: datetime | None  # None: no limit


@dataclass(frozen=True, slots=True, kw_only=True)
class RecentFailure:
    job: JobSummary
    exit: ExitDescription | None
    verdict: FailureView | None  # if more is known than the exit


@dataclass(frozen=True, slots=True, kw_only=True)
class InstallationStatus:
    """For admins: jobs of all users, and the health of the server."""

    tiles: tuple[StateTile, ...]
    healthy: bool
    notes: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class HomePage:
    jobs: OwnJobs
    held: tuple[HeldJob, ...]
    now: tuple[StateTile, ...]
    recent: tuple[StateTile, ...]
    failures: tuple[RecentFailure, ...]
    groups: tuple[UsageBars, ...]
    more_groups: int  # not shown
    machines: tuple[UsageBars, ...]
    more_machines: int
    isolated: bool
    conditions: tuple[Condition, ...]  # current problems of the installation
    upcoming: tuple[ScheduleView, ...]
    installation: InstallationStatus | None
    first_job: FirstJob | None  # for users without jobs
    origin: str


async def show_home(visit: Visit) -> Response:
    jobs = await visit.services.overview.load_own_jobs(visit.current_actor)
    capacity = await visit.services.installation.get_capacity(visit.current_actor)
    groups, machines = _build_group_bars(visit, capacity), _build_node_bars(visit, capacity)
    found = HomePage(
        jobs=jobs,
        held=tuple(HeldJob(job=job, until=visit.services.job_pages.get_hold_end(job.id)) for job in jobs.held),
        now=tuple(_build_tile(jobs, state) for state in ACTIVE_STATES),
        recent=tuple(_build_tile(jobs, state, RECENT_RANGE) for state in RECENT_STATES),
        failures=tuple(_build_recent_failure(visit, jobs, job) for job in jobs.failed),
        groups=tuple(groups[:MAX_SHOWN_GROUPS]),
        more_groups=max(0, len(groups) - MAX_SHOWN_GROUPS),
        machines=tuple(machines[:MAX_SHOWN_NODES]),
        more_machines=max(0, len(machines) - MAX_SHOWN_NODES),
        isolated=capacity.engine.isolation is not Isolation.NONE,
        conditions=(await visit.services.installation.check_health()).conditions,
        upcoming=await _list_upcoming_schedules(visit),
        installation=await _load_installation_status(visit, capacity) if visit.current_actor.admin else None,
        first_job=None if jobs.any else build_first_job(visit.current_actor),
        origin=get_origin(visit.request),
    )
    return await visit.render_response("home/_board.html" if visit.wants_part else "home/home.html", found)


def _build_recent_failure(visit: Visit, jobs: OwnJobs, job: JobSummary) -> RecentFailure:
    verdict = build_failure_view(visit, job.id, jobs.diagnoses.get(job.id))
    known = verdict if verdict and verdict.known else None
    return RecentFailure(
        job=job, exit=None if known else describe_exit(visit, _build_exit_from_summary(job)), verdict=known
    )


def _build_tile(jobs: OwnJobs, state: JobState, span: str = "") -> StateTile:
    count = jobs.counts[state]
    text = f"{MAX_COUNTED}+" if count >= MAX_COUNTED else str(count)
    return StateTile(state=state, count=text, href=JobListFilters(mine=True, states=(state,), span=span).address)


def _build_exit_from_summary(job: JobSummary) -> Exit | None:
    """Return the exit from the job summary, with the message of the job."""
    if job.exit_kind not in set(ExitKind):
        return None
    return Exit(kind=ExitKind(job.exit_kind), message=job.message, code=job.exit_code, cause=job.exit_cause)


def _build_group_bars(visit: Visit, capacity: Capacity) -> list[UsageBars]:
    """Return the groups of the user, those with usage first."""
    use = {found.group: found for found in capacity.groups}
    known = sorted((use[name] for name in visit.current_actor.groups if name in use), key=lambda found: found.group)
    known.sort(key=lambda found: found.used == ResourceAmount())
    return [
        UsageBars(
            name=found.group,
            lines=build_quota_lines(visit, found.used, found.quota),
            mine=build_quota_lines(visit, found.users.get(visit.current_actor.name, ResourceAmount()), found.user_quota)
            if found.user_quota != Quota()
            else (),
        )
        for found in known
    ]


def _build_node_bars(visit: Visit, capacity: Capacity) -> list[UsageBars]:
    return [
        UsageBars(name=use.node.name, lines=build_node_lines(visit, use.free, use.node.capacity))
        for use in capacity.nodes
    ]


async def _list_upcoming_schedules(visit: Visit) -> tuple[ScheduleView, ...]:
    query = ScheduleQuery(
        user=visit.current_actor.name, order=ScheduleOrder.NEXT_RUN, descending=False, limit=MAX_UPCOMING_SCHEDULES
    )
    found = await visit.services.schedules.list(visit.current_actor, query)
    views = (build_schedule_view(schedule, visit.services, visit.current_actor) for schedule in found.items)
    return tuple(view for view in views if view.status in ("active", "invalid"))


async def _load_installation_status(visit: Visit, capacity: Capacity) -> InstallationStatus:
    status = await visit.services.installation.get_status(visit.current_actor)
    health = await visit.services.installation.check_health()  # conditions are shown to everyone, above
    tiles = [
        StateTile(state=state, count=str(status.jobs.get(state, 0)), href=JobListFilters(states=(state,)).address)
        for state in ACTIVE_STATES
    ]
    notes = tuple(map(visit.translate_message, capacity.engine.notes))
    return InstallationStatus(tiles=tuple(tiles), healthy=health.is_healthy, notes=notes)


routes = [build_page_route("/", show_home)]
