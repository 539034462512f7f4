"""The first page: what is yours and how it goes, what your groups may use, and what the place has."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from starlette.responses import Response

from holdfast.core.conditions import Condition
from holdfast.core.exits.exit import Exit, ExitKind
from holdfast.core.records import JobSummary
from holdfast.core.schedule import ScheduleOrder, ScheduleQuery
from holdfast.core.scheduling.placement import Amount, Quota
from holdfast.core.states import JobState
from holdfast.engines.base import Isolation
from holdfast.services.installation.status import Capacity
from holdfast.services.jobs.overview import MAX_COUNTED, OwnJobs

from ...origin import origin_of
from ..jobs.filters import Filters
from ..jobs.first_job import FirstJob, first_job
from ..routes import page
from ..schedule_views import ScheduleView, view_of
from ..usage_lines import UseLine, machine_lines, quota_lines
from ..visit import Visit
from .job.verdict import FailureView, failure_view
from .job.view import ExitWords, exit_words

SPAN = "7d"  # as the job list names services.overview.RECENT
NOW = (JobState.RUNNING, JobState.PENDING, JobState.PREPARING, JobState.HELD)
LATELY = (JobState.SUCCEEDED, JobState.FAILED, JobState.CANCELLED)
MAX_GROUPS = 4
MAX_NODES = 6
UPCOMING = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class Tile:
    state: JobState
    count: str
    href: str

    @property
    def some(self) -> bool:
        return self.count != "0"


@dataclass(frozen=True, slots=True, kw_only=True)
class HeldJob:
    job: JobSummary
    until: datetime | None  # None: without a bound


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure:
    job: JobSummary
    exit: ExitWords | None
    verdict: FailureView | None  # where more is known than its exit


@dataclass(frozen=True, slots=True, kw_only=True)
class Bars:
    """A group or a machine, and how much of it is used."""

    name: str
    lines: tuple[UseLine, ...]
    mine: tuple[UseLine, ...] = ()  # where each user has a bound, too


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """For admins: everybody's jobs, and whether all is well."""

    tiles: tuple[Tile, ...]
    well: bool
    notes: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class HomePage:
    jobs: OwnJobs
    held: tuple[HeldJob, ...]
    now: tuple[Tile, ...]
    lately: tuple[Tile, ...]
    failures: tuple[Failure, ...]
    groups: tuple[Bars, ...]
    more_groups: int  # that are not shown
    machines: tuple[Bars, ...]
    more_machines: int
    isolated: bool
    conditions: tuple[Condition, ...]  # current problems of the installation
    upcoming: tuple[ScheduleView, ...]
    place: Place | None
    first_job: FirstJob | None  # for somebody who never had one
    origin: str


async def show_home(visit: Visit) -> Response:
    jobs = await visit.services.overview.own_jobs(visit.who)
    capacity = await visit.services.place.capacity(visit.who)
    groups, machines = _groups(visit, capacity), _machines(visit, capacity)
    found = HomePage(
        jobs=jobs,
        held=tuple(HeldJob(job=job, until=visit.services.closeup.held_until(job.id)) for job in jobs.held),
        now=tuple(_tile(jobs, state) for state in NOW),
        lately=tuple(_tile(jobs, state, SPAN) for state in LATELY),
        failures=tuple(_failure(visit, jobs, job) for job in jobs.failed),
        groups=tuple(groups[:MAX_GROUPS]),
        more_groups=max(0, len(groups) - MAX_GROUPS),
        machines=tuple(machines[:MAX_NODES]),
        more_machines=max(0, len(machines) - MAX_NODES),
        isolated=capacity.engine.isolation is not Isolation.NONE,
        conditions=(await visit.services.place.health()).conditions,
        upcoming=await _upcoming(visit),
        place=await _place(visit, capacity) if visit.who.admin else None,
        first_job=None if jobs.any else first_job(visit.who),
        origin=origin_of(visit.request),
    )
    return await visit.show("home/_board.html" if visit.wants_part else "home/home.html", found)


def _failure(visit: Visit, jobs: OwnJobs, job: JobSummary) -> Failure:
    verdict = failure_view(visit, job.id, jobs.diagnoses.get(job.id))
    known = verdict if verdict and verdict.known else None
    return Failure(job=job, exit=None if known else exit_words(visit, _exit(job)), verdict=known)


def _tile(jobs: OwnJobs, state: JobState, span: str = "") -> Tile:
    count = jobs.counts[state]
    text = f"{MAX_COUNTED}+" if count >= MAX_COUNTED else str(count)
    return Tile(state=state, count=text, href=Filters(mine=True, states=(state,), span=span).address)


def _exit(job: JobSummary) -> Exit | None:
    """As much of it as lists keep; its message is the job's."""
    kinds = set(ExitKind)
    if job.exit_kind not in kinds:
        return None
    return Exit(kind=ExitKind(job.exit_kind), message=job.message, code=job.exit_code, cause=job.exit_cause)


def _groups(visit: Visit, capacity: Capacity) -> list[Bars]:
    """One's own, those with something in use first."""
    use = {found.group: found for found in capacity.groups}
    known = sorted((use[name] for name in visit.who.groups if name in use), key=lambda found: found.group)
    known.sort(key=lambda found: found.used == Amount())
    return [
        Bars(
            name=found.group,
            lines=quota_lines(visit, found.used, found.quota),
            mine=quota_lines(visit, found.users.get(visit.who.name, Amount()), found.user_quota)
            if found.user_quota != Quota()
            else (),
        )
        for found in known
    ]


def _machines(visit: Visit, capacity: Capacity) -> list[Bars]:
    return [Bars(name=use.node.name, lines=machine_lines(visit, use.free, use.node.whole)) for use in capacity.nodes]


async def _upcoming(visit: Visit) -> tuple[ScheduleView, ...]:
    query = ScheduleQuery(user=visit.who.name, order=ScheduleOrder.NEXT_RUN, descending=False, limit=UPCOMING)
    found = await visit.services.schedules.list(visit.who, query)
    views = (view_of(schedule, visit.services, visit.who) for schedule in found.items)
    return tuple(view for view in views if view.status in ("active", "invalid"))


async def _place(visit: Visit, capacity: Capacity) -> Place:
    status = await visit.services.place.status(visit.who)
    health = await visit.services.place.health()  # conditions are shown to everyone, above
    tiles = [
        Tile(state=state, count=str(status.jobs.get(state, 0)), href=Filters(states=(state,)).address) for state in NOW
    ]
    notes = tuple(map(visit.tell, capacity.engine.notes))
    return Place(tiles=tuple(tiles), well=health.well, notes=notes)


routes = [page("/", show_home)]
