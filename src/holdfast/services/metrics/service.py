"""Resource usage of jobs, over time and current. Values of a job or role are the mean over its tasks and their GPUs."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from holdfast.core.access import Actor
from holdfast.core.attempt import JobSnapshot, TaskAttempt
from holdfast.core.attempt_id import parse_job_id
from holdfast.core.errors import NotFound, UserError
from holdfast.core.job import Job, Role
from holdfast.core.messages import msg
from holdfast.core.metrics.averaging import MetricsPoint, average_samples, build_points
from holdfast.core.metrics.samples import RING_BUFFER_SPECS, CurrentMetrics, RingBufferSpec, Sample, TaskSummary
from holdfast.core.records import JobSummary, TaskRecord
from holdfast.core.states import TaskState
from holdfast.store.database import Store
from holdfast.store.jobs import records as job_rows
from holdfast.store.metrics.database import MetricsDatabase, MetricSeries

from ..control import Control
from ..job_lookup import find_job, list_readable_groups
from ..jobs.current_tasks import load_job_with_tasks

MAX_POINTS = 60_000  # averaged for one response, of all tasks together
MAX_TASKS = 1000  # returned for one job

TaskTries = Mapping[str, Sequence[str]]  # task -> attempt ids of its tries in one attempt of the job


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskLimits:
    """The limits of a task, or the mean of several tasks. None: unknown."""

    cpu: float | None = None  # requested cores
    memory: float | None = None  # bytes
    gpu: float | None = None  # requested GPUs
    gpu_memory: float | None = None  # bytes per GPU


@dataclass(frozen=True, slots=True, kw_only=True)
class JobSeries:
    job_id: str
    attempt: int
    ring: RingBufferSpec
    role: str | None
    task: str | None
    points: tuple[MetricsPoint, ...]  # oldest first
    tasks: int  # that ran, of the selected ones
    averaged: int  # how many of these are averaged: fewer if there are very many, or without samples
    limits: TaskLimits
    final: bool  # no points will be added


@dataclass(frozen=True, slots=True, kw_only=True)
class CurrentTaskMetrics:
    task: TaskAttempt
    attempt_id: str
    requested: Role
    current: CurrentMetrics | None  # None: not sampled yet, or not running


@dataclass(frozen=True, slots=True, kw_only=True)
class CurrentJobMetrics:
    job: JobSummary
    tasks: tuple[CurrentTaskMetrics, ...]  # that are on a node now
    total: int  # of all such tasks; can be more than MAX_TASKS


@dataclass(slots=True, kw_only=True)
class CurrentUsage:
    """The total current usage of tasks."""

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
        """GPU utilization in percent, the mean over all GPUs."""
        return self.gpu_sum / self.gpus if self.gpus else None

    def add_sample(self, current: CurrentMetrics) -> None:
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
class CurrentUsageTotals:
    jobs: Mapping[str, CurrentUsage]  # that the actor can see
    groups: Mapping[str, CurrentUsage]  # of these jobs
    nodes: Mapping[str, CurrentUsage] = field(default_factory=dict)  # of all jobs


class SupportsSummaries(Protocol):
    """Source of usage summaries for diagnosis and efficiency."""

    async def read_summaries(self, attempt_ids: Collection[str]) -> Mapping[str, TaskSummary]:
        """Return the summaries of the tries that have samples."""
        ...


class Metrics:
    def __init__(self, store: Store, database: MetricsDatabase, control: Control, *, enabled: bool) -> None:
        self.database = database
        self.enabled = enabled
        self._store = store
        self._control = control

    async def load_series(
        self,
        actor: Actor,
        ref: str,
        ring: str = RING_BUFFER_SPECS[0].name,
        *,
        role: str | None = None,
        task: str | None = None,
        attempt: int | None = None,
    ) -> JobSeries:
        """Return the series of a job, a role or a task such as worker-0, by default in the newest attempt."""
        chosen = _parse_ring(ring)
        found = await find_job(self._store, actor, ref)
        record, rows = await self._store.read(load_job_with_tasks, found.id, attempt)
        number = record.summary.attempt if attempt is None else attempt
        _check_selection(record, number, role, task)
        lines = _group_tries(rows, role, task)
        series, points = await self.database.run_in_thread(self._read_averaged_series, lines, chosen)
        return JobSeries(
            job_id=found.id,
            attempt=number,
            ring=chosen,
            role=role,
            task=task,
            points=points,
            tasks=len(lines),
            averaged=len(series),
            limits=_compute_limits(record.job, role, task, series),
            final=record.summary.state.final or number != record.summary.attempt,
        )

    async def load_current_metrics(self, actor: Actor, ref: str) -> CurrentJobMetrics:
        """Return the newest sample of each task that is on a node."""
        found = await find_job(self._store, actor, ref)
        live = self._control.get_active_job(found.id)
        tasks = [task for task in live.tasks if task.state.live and task.node] if live else []
        shown = tuple(self._build_current_task(live, task) for task in tasks[:MAX_TASKS]) if live else ()
        return CurrentJobMetrics(job=found, tasks=shown, total=len(tasks))

    def get_current_totals(self, actor: Actor) -> CurrentUsageTotals:
        groups = list_readable_groups(actor)
        jobs: dict[str, CurrentUsage] = {}
        by_group: dict[str, CurrentUsage] = {}
        nodes: dict[str, CurrentUsage] = {}
        for snapshot, task, current in self.iter_running_tasks():
            if groups is None or snapshot.job.group in groups:
                jobs.setdefault(snapshot.id, CurrentUsage()).add_sample(current)
                by_group.setdefault(snapshot.job.group, CurrentUsage()).add_sample(current)
            nodes.setdefault(task.node or "", CurrentUsage()).add_sample(current)
        return CurrentUsageTotals(jobs, by_group, nodes)

    def iter_running_tasks(self) -> Iterator[tuple[JobSnapshot, TaskAttempt, CurrentMetrics]]:
        """Yield every running task with its newest sample, without a permission check."""
        by_job: dict[str, dict[str, CurrentMetrics]] = {}
        for attempt_id, current in self.database.newest.copy().items():
            by_job.setdefault(parse_job_id(attempt_id), {})[attempt_id] = current
        for job_id, currents in by_job.items():
            live = self._control.get_active_job(job_id)
            if live is not None:
                found = ((task, currents.get(live.build_attempt_id(task))) for task in live.tasks)
                yield from ((live, task, current) for task, current in found if current is not None)

    async def read_summary(self, attempt_id: str) -> TaskSummary | None:
        """Return the summary of one try, without a permission check; None if there are no samples."""
        return await self.database.run_in_thread(self.database.read_summary, attempt_id)

    async def read_summaries(self, attempt_ids: Collection[str]) -> dict[str, TaskSummary]:
        """Return the summaries of the tries that have samples, without a permission check."""
        return await self.database.run_in_thread(self._read_found_summaries, tuple(attempt_ids))

    async def load_first_task_series(self, job_id: str, attempt: int, job: Job) -> MetricSeries | None:
        """Of the first role's first task, in its newest try; for clients with single-task jobs. No permission check."""
        rows = await self._store.read(job_rows.list_job_tries, job_id, attempt)
        first = [each.attempt_id for each in rows if (each.task.role, each.task.index) == (job.roles[0].name, 0)]
        return await self.database.run_in_thread(self.database.read_series, first[-1]) if first else None

    def _build_current_task(self, live: JobSnapshot, task: TaskAttempt) -> CurrentTaskMetrics:
        id = live.build_attempt_id(task)
        current = self.database.newest.get(id) if task.state is TaskState.RUNNING else None
        return CurrentTaskMetrics(task=task, attempt_id=id, requested=live.job.get_role(task.role), current=current)

    def _read_found_summaries(self, attempt_ids: Sequence[str]) -> dict[str, TaskSummary]:
        found = ((id, self.database.read_summary(id)) for id in attempt_ids)
        return {id: summary for id, summary in found if summary is not None}

    def _read_averaged_series(
        self, lines: TaskTries, ring: RingBufferSpec
    ) -> tuple[list[_TaskSeries], tuple[MetricsPoint, ...]]:
        """Read and average series, in the database's thread: many tasks take a while."""
        series = self._read_all_series(lines, ring)
        if len(series) == 1:
            points = build_points(series[0].points)
        else:
            points = average_samples([each.points for each in series], ring.seconds)
        return series, _trim_to_ring(points, ring)

    def _read_all_series(self, lines: TaskTries, ring: RingBufferSpec) -> list[_TaskSeries]:
        """Read an evenly spaced selection of tasks within MAX_POINTS."""
        tries = list(lines.values())
        found = [self._read_task_series(each, ring) for each in tries[:1]]
        most = max(1, MAX_POINTS // max([1, *(len(line.points) for line in found)]))
        step = max(1, -(-len(tries) // most))
        found += [self._read_task_series(each, ring) for each in tries[step::step]]
        return [line for line in found if line.newest]

    def _read_task_series(self, tries: Sequence[str], ring: RingBufferSpec) -> _TaskSeries:
        found = [series for id in tries if (series := self.database.read_series(id, ring.name))]
        points = [point for series in found for point in series.rings[ring.name]]
        return _TaskSeries(points, found[-1] if found else None)


@dataclass(frozen=True, slots=True)
class _TaskSeries:
    """The series of one task."""

    points: list[Sample]
    newest: MetricSeries | None  # of its last try


def _trim_to_ring(points: Sequence[MetricsPoint], ring: RingBufferSpec) -> tuple[MetricsPoint, ...]:
    """Drop points that are older than the ring, from tasks that ended long ago."""
    since = points[-1].at - ring.seconds * ring.points if points else 0.0
    return tuple(point for point in points[-ring.points :] if point.at > since)


def _parse_ring(name: str) -> RingBufferSpec:
    found = next((ring for ring in RING_BUFFER_SPECS if ring.name == name), None)
    if found is None:
        known = ", ".join(ring.name for ring in RING_BUFFER_SPECS)
        raise UserError(
            msg("Series {name} not found", name=repr(name[:50])),
            field="ring",
            hint=msg("Known values: {known}.", known=known),
        )
    return found


def _check_selection(record: job_rows.JobDetail, attempt: int, role: str | None, task: str | None) -> None:
    summary, job = record.summary, record.job
    if not 0 <= attempt <= summary.attempt:
        hint = msg("Attempts are numbered from 0. Number of attempts: {count}.", count=summary.attempt + 1)
        raise NotFound(msg("{id} has no attempt {attempt}", id=summary.id, attempt=attempt), field="attempt", hint=hint)
    roles = ", ".join(each.name for each in job.roles)
    if role is not None and role not in {each.name for each in job.roles}:
        raise NotFound(
            msg("{id} has no role {role}", id=summary.id, role=role[:100]),
            field="role",
            hint=msg("Available roles: {roles}.", roles=roles),
        )
    if task is not None and not any(_is_task_of_role(task, each) for each in job.roles):
        hint = msg("Use the role and a number, such as {name}-0.", name=job.roles[0].name)
        raise NotFound(msg("{id} has no task {task}", id=summary.id, task=task[:100]), field="task", hint=hint)


def _is_task_of_role(task: str, role: Role) -> bool:
    name, _, index = task.rpartition("-")
    return name == role.name and index.isascii() and index.isdigit() and int(index) < role.instances


def _group_tries(rows: Sequence[TaskRecord], role: str | None, task: str | None) -> TaskTries:
    found: dict[str, list[str]] = {}
    for each in rows:
        if (role is None or each.task.role == role) and (task is None or each.task.task == task):
            found.setdefault(each.task.task, []).append(each.attempt_id)
    return found


def _compute_limits(job: Job, role: str | None, task: str | None, series: Sequence[_TaskSeries]) -> TaskLimits:
    requested = [
        each.resources
        for each in job.roles
        for _ in range(each.instances)
        if (role is None or each.name == role) and (task is None or _is_task_of_role(task, each))
    ]
    readings = [line.newest.reading for line in series if line.newest]
    measured = [reading.memory_limit for reading in readings if reading.memory_limit is not None]
    gpus = [gpu.memory_total for reading in readings for gpu in reading.gpus]
    return TaskLimits(
        cpu=_compute_mean([each.cpu for each in requested]),
        memory=_compute_mean(measured or [each.memory for each in requested]),
        gpu=_compute_mean([each.gpu for each in requested]),
        gpu_memory=_compute_mean(gpus),
    )


def _compute_mean(values: Sequence[float]) -> float | None:
    return sum(values) / len(values) if values else None
