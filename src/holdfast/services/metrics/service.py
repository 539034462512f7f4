"""What jobs use: over time, and now. Each figure of a job or a role is the mean over its tasks, and over their GPUs."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from sqlalchemy import Connection

from holdfast.core.access import Actor
from holdfast.core.attempt import JobSnapshot, TaskAttempt
from holdfast.core.attempt_id import job_id_of
from holdfast.core.errors import NotFound, UserError
from holdfast.core.job import Job, Role
from holdfast.core.messages import msg
from holdfast.core.metrics.averaging import Point, average, points_of
from holdfast.core.metrics.samples import RINGS, Current, Ring, Sample, TaskSummary
from holdfast.core.records import JobSummary, TaskRecord
from holdfast.core.states import TaskState
from holdfast.store.database import Store
from holdfast.store.jobs import records as job_rows
from holdfast.store.metrics.series_files import Series, SeriesFiles

from ..control import Control
from ..job_lookup import find_job, readable_groups

MAX_POINTS = 60_000  # of all tasks together that are averaged for one answer
MAX_TASKS = 1000  # told of one job

Lines = Mapping[str, Sequence[str]]  # task -> its tries in one attempt of the job, as engines name them


@dataclass(frozen=True, slots=True, kw_only=True)
class Bounds:
    """What a task may use; of several, the mean. None: not known."""

    cpu: float | None = None  # cores that it asked for
    memory: float | None = None  # bytes
    gpu: float | None = None  # GPUs that it asked for
    gpu_memory: float | None = None  # bytes that one GPU has


@dataclass(frozen=True, slots=True, kw_only=True)
class JobSeries:
    job_id: str
    attempt: int
    ring: Ring
    role: str | None
    task: str | None
    points: tuple[Point, ...]  # oldest first
    tasks: int  # that ran, of those asked for
    averaged: int  # of these, how many the points are the mean of: fewer where there are very many, or no figures
    limits: Bounds
    final: bool  # nothing will be added


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskNow:
    task: TaskAttempt
    attempt_id: str
    asked: Role
    current: Current | None  # None: nobody has looked yet, or it does not run


@dataclass(frozen=True, slots=True, kw_only=True)
class JobNow:
    job: JobSummary
    tasks: tuple[TaskNow, ...]  # that are on a machine now
    total: int  # of all such tasks; more than are told where there are very many


@dataclass(slots=True, kw_only=True)
class Load:
    """What tasks use now, together."""

    tasks: int = 0
    cpu: float = 0.0  # percent of one core
    memory: float = 0.0
    net_in: float = 0.0
    net_out: float = 0.0
    disk_read: float = 0.0
    disk_written: float = 0.0
    gpus: int = 0
    gpu_sum: float = 0.0
    gpu_memory: float = 0.0  # bytes of all GPUs
    gpu_memory_total: int = 0

    @property
    def gpu(self) -> float | None:
        """Percent, the mean over all their GPUs."""
        return self.gpu_sum / self.gpus if self.gpus else None

    def add(self, current: Current) -> None:
        sample = current.sample
        self.tasks += 1
        self.cpu += sample.cpu
        self.memory += sample.memory
        self.net_in += sample.net_in
        self.net_out += sample.net_out
        self.disk_read += sample.disk_read
        self.disk_written += sample.disk_written
        self.gpus += len(sample.gpus)
        self.gpu_sum += sum(gpu.percent for gpu in sample.gpus)
        self.gpu_memory += sum(gpu.memory for gpu in sample.gpus)
        self.gpu_memory_total += sum(gpu.memory_total for gpu in current.reading.gpus)


@dataclass(frozen=True, slots=True)
class PlaceNow:
    jobs: Mapping[str, Load]  # those that the actor may see
    groups: Mapping[str, Load]  # of these jobs
    nodes: Mapping[str, Load] = field(default_factory=dict)  # of all jobs


class GivesSummaries(Protocol):
    """What those need of it who judge tasks by what they used."""

    async def summaries(self, attempt_ids: Collection[str]) -> Mapping[str, TaskSummary]:
        """Of those tries of tasks that were measured."""
        ...


class Metrics:
    def __init__(self, store: Store, files: SeriesFiles, control: Control, *, enabled: bool) -> None:
        self.files = files
        self.enabled = enabled
        self._store = store
        self._control = control

    async def series(
        self,
        actor: Actor,
        ref: str,
        ring: str = RINGS[0].name,
        *,
        role: str | None = None,
        task: str | None = None,
        attempt: int | None = None,
    ) -> JobSeries:
        """Of the whole job, of a role, or of one task such as worker-0; in its newest attempt, or in another."""
        kept = _ring(ring)
        found = await find_job(self._store, actor, ref)
        record, rows = await self._store.read(_with_tries, found.id, attempt)
        number = record.summary.attempt if attempt is None else attempt
        _check(record, number, role, task)
        lines = _lines(rows, role, task)
        series, points = await self.files.ask(self._read_and_average, lines, kept)
        return JobSeries(
            job_id=found.id,
            attempt=number,
            ring=kept,
            role=role,
            task=task,
            points=points,
            tasks=len(lines),
            averaged=len(series),
            limits=_limits(record.job, role, task, series),
            final=record.summary.state.final or number != record.summary.attempt,
        )

    async def now(self, actor: Actor, ref: str) -> JobNow:
        """The newest figures of each task that is on a machine."""
        found = await find_job(self._store, actor, ref)
        live = self._control.active(found.id)
        tasks = [task for task in live.tasks if task.state.live and task.node] if live else []
        told = tuple(self._now(live, task) for task in tasks[:MAX_TASKS]) if live else ()
        return JobNow(job=found, tasks=told, total=len(tasks))

    def place_now(self, actor: Actor) -> PlaceNow:
        """What runs now uses, by job, by group and by machine."""
        groups = readable_groups(actor)
        jobs: dict[str, Load] = {}
        by_group: dict[str, Load] = {}
        nodes: dict[str, Load] = {}
        for snapshot, task, current in self.running():
            if groups is None or snapshot.job.group in groups:
                jobs.setdefault(snapshot.id, Load()).add(current)
                by_group.setdefault(snapshot.job.group, Load()).add(current)
            nodes.setdefault(task.node or "", Load()).add(current)
        return PlaceNow(jobs, by_group, nodes)

    def running(self) -> Iterator[tuple[JobSnapshot, TaskAttempt, Current]]:
        """Every task that runs and has been looked at, with its newest figures. Asks for no permission."""
        by_job: dict[str, dict[str, Current]] = {}
        for attempt_id, current in self.files.newest.copy().items():
            by_job.setdefault(job_id_of(attempt_id), {})[attempt_id] = current
        for job_id, currents in by_job.items():
            live = self._control.active(job_id)
            if live is not None:
                found = ((task, currents.get(live.attempt_id(task))) for task in live.tasks)
                yield from ((live, task, current) for task, current in found if current is not None)

    async def summary(self, attempt_id: str) -> TaskSummary | None:
        """Of one try of a task; None: there are no figures. Asks for no permission."""
        return await self.files.ask(self.files.summary, attempt_id)

    async def summaries(self, attempt_ids: Collection[str]) -> dict[str, TaskSummary]:
        """The same of several, without those that there are no figures of."""
        return await self.files.ask(self._summaries, tuple(attempt_ids))

    async def first_task(self, job_id: str, attempt: int, job: Job) -> Series | None:
        """All that is kept of the first task of the job's first role, in its newest try: for those who know jobs of one
        task. Asks for no permission."""
        rows = await self._store.read(job_rows.tasks, job_id, attempt)
        first = [each.attempt_id for each in rows if (each.task.role, each.task.index) == (job.roles[0].name, 0)]
        return await self.files.ask(self.files.read, first[-1]) if first else None

    def _now(self, live: JobSnapshot, task: TaskAttempt) -> TaskNow:
        id = live.attempt_id(task)
        current = self.files.newest.get(id) if task.state is TaskState.RUNNING else None
        return TaskNow(task=task, attempt_id=id, asked=live.job.role(task.role), current=current)

    def _summaries(self, attempt_ids: Sequence[str]) -> dict[str, TaskSummary]:
        found = ((id, self.files.summary(id)) for id in attempt_ids)
        return {id: summary for id, summary in found if summary is not None}

    def _read_and_average(self, lines: Lines, ring: Ring) -> tuple[list[_Line], tuple[Point, ...]]:
        """In the files' own thread: of many tasks it takes a while."""
        series = self._read(lines, ring)
        if len(series) == 1:
            points = points_of(series[0].points)
        else:
            points = average([each.points for each in series], ring.seconds)
        return series, _newest(points, ring)

    def _read(self, lines: Lines, ring: Ring) -> list[_Line]:
        """As many tasks as can be averaged at once, evenly chosen."""
        tries = list(lines.values())
        found = [self._line(each, ring) for each in tries[:1]]
        most = max(1, MAX_POINTS // max([1, *(len(line.points) for line in found)]))
        step = max(1, -(-len(tries) // most))
        found += [self._line(each, ring) for each in tries[step::step]]
        return [line for line in found if line.newest]

    def _line(self, tries: Sequence[str], ring: Ring) -> _Line:
        found = [series for id in tries if (series := self.files.read(id, ring.name))]
        points = [point for series in found for point in series.rings[ring.name]]
        return _Line(points, found[-1] if found else None)


@dataclass(frozen=True, slots=True)
class _Line:
    """Of one task."""

    points: list[Sample]
    newest: Series | None  # of its last try


def _newest(points: Sequence[Point], ring: Ring) -> tuple[Point, ...]:
    """As far back as the ring reaches: the last points of tasks that ended long ago are older."""
    since = points[-1].at - ring.seconds * ring.points if points else 0.0
    return tuple(point for point in points[-ring.points :] if point.at > since)


def _with_tries(conn: Connection, job_id: str, attempt: int | None) -> tuple[job_rows.JobDetail, list[TaskRecord]]:
    job = job_rows.get(conn, job_id)
    return job, job_rows.tasks(conn, job_id, job.summary.attempt if attempt is None else attempt)


def _ring(name: str) -> Ring:
    found = next((ring for ring in RINGS if ring.name == name), None)
    if found is None:
        known = ", ".join(ring.name for ring in RINGS)
        raise UserError(
            msg("There is no series {name}", name=repr(name[:50])),
            field="ring",
            hint=msg("Known are: {known}.", known=known),
        )
    return found


def _check(record: job_rows.JobDetail, attempt: int, role: str | None, task: str | None) -> None:
    summary, job = record.summary, record.job
    if not 0 <= attempt <= summary.attempt:
        hint = msg("It has had {x1}, counted from 0.", x1=summary.attempt + 1)
        raise NotFound(msg("{id} has no attempt {attempt}", id=summary.id, attempt=attempt), field="attempt", hint=hint)
    roles = ", ".join(each.name for each in job.roles)
    if role is not None and role not in {each.name for each in job.roles}:
        raise NotFound(
            msg("{id} has no role {role}", id=summary.id, role=role[:100]),
            field="role",
            hint=msg("Its roles are: {roles}.", roles=roles),
        )
    if task is not None and not any(_is_of(task, each) for each in job.roles):
        hint = msg("Tasks are called by their role and a number, such as {name}-0.", name=job.roles[0].name)
        raise NotFound(msg("{id} has no task {task}", id=summary.id, task=task[:100]), field="task", hint=hint)


def _is_of(task: str, role: Role) -> bool:
    name, _, index = task.rpartition("-")
    return name == role.name and index.isascii() and index.isdigit() and int(index) < role.instances


def _lines(rows: Sequence[TaskRecord], role: str | None, task: str | None) -> Lines:
    found: dict[str, list[str]] = {}
    for each in rows:
        if (role is None or each.task.role == role) and (task is None or each.task.task == task):
            found.setdefault(each.task.task, []).append(each.attempt_id)
    return found


def _limits(job: Job, role: str | None, task: str | None, series: Sequence[_Line]) -> Bounds:
    asked = [
        each.resources
        for each in job.roles
        for _ in range(each.instances)
        if (role is None or each.name == role) and (task is None or _is_of(task, each))
    ]
    readings = [line.newest.reading for line in series if line.newest]
    measured = [reading.memory_limit for reading in readings if reading.memory_limit is not None]
    gpus = [gpu.memory_total for reading in readings for gpu in reading.gpus]
    return Bounds(
        cpu=_mean([each.cpu for each in asked]),
        memory=_mean(measured or [each.memory for each in asked]),
        gpu=_mean([each.gpu for each in asked]),
        gpu_memory=_mean(gpus),
    )


def _mean(values: Sequence[float]) -> float | None:
    return sum(values) / len(values) if values else None
