"""How everything stands, as Prometheus reads it: OpenPAI's names for tasks and GPUs, our own for the rest.

Only tasks that run have series, so their number is bounded by the machines. Nothing is told that was not measured.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from prometheus_client.metrics_core import CounterMetricFamily, GaugeMetricFamily, Metric, UnknownMetricFamily

from holdfast.core.attempt import JobSnapshot, TaskAttempt
from holdfast.core.conditions import ConditionKind
from holdfast.core.identity import attempt_uid, framework_name
from holdfast.core.metrics.samples import Current
from holdfast.core.scheduling.placement import Amount, GroupUse, NodeUse, Quota
from holdfast.core.states import FINAL, JobState, TaskState
from holdfast.services.installation.monitoring import Standing

from .prometheus_gpus import clean, gpu_families

TASK_LABELS = ("username", "job_name", "role_name", "task_index", "job_instance_id", "virtual_cluster")
GPU_LABELS = (*TASK_LABELS, "minor_number")
LIVE_JOBS = tuple(state for state in JobState if state not in FINAL)
LIVE_TASKS = (TaskState.WAITING, TaskState.PREPARING, TaskState.RUNNING, TaskState.HELD)


def collect(standing: Standing) -> Iterator[Metric]:
    yield from _tasks(standing)
    yield from gpu_families(standing)
    yield from _jobs(standing)
    yield from _queue(standing)
    yield from _totals(standing)
    yield from _nodes(standing.nodes)
    yield from _groups(standing.groups)
    yield from _around(standing)


# -- tasks, by OpenPAI's names


class _Figures(NamedTuple):
    labels: tuple[str, ...]
    memory_limit: int
    now: Current


class _Series(NamedTuple):
    name: str
    text: str
    value: Callable[[_Figures], float | None]
    counts: bool = False  # it only grows; "unknown" to the library, which would call a counter by another name


TASK_SERIES = (
    _Series("task_cpu_percent", "Processor time of a task; 100 is one core.", lambda f: f.now.sample.cpu),
    _Series("task_mem_usage_byte", "Memory of a task, in bytes.", lambda f: f.now.sample.memory),
    _Series("task_mem_limit_byte", "Memory that a task may have, in bytes.", lambda f: f.memory_limit),
    _Series("task_mem_usage_percent", "Memory of a task, in percent of its limit.", lambda f: _memory_percent(f)),
    _Series("task_net_in_byte", "Bytes a second that a task received by TCP.", lambda f: _rate(f, "net_in")),
    _Series("task_net_out_byte", "Bytes a second that a task sent by TCP.", lambda f: _rate(f, "net_out")),
    _Series("task_block_in_byte", "Bytes a task read from disks so far.", lambda f: f.now.reading.disk_read, True),
    _Series("task_block_out_byte", "Bytes a task wrote to disks so far.", lambda f: f.now.reading.disk_written, True),
)


def _memory_percent(figures: _Figures) -> float | None:
    return 100.0 * figures.now.sample.memory / figures.memory_limit if figures.memory_limit else None


def _rate(figures: _Figures, name: str) -> float | None:
    """Where the counter is missing, a rate of 0 would be invented."""
    known = getattr(figures.now.reading, name) is not None
    return float(getattr(figures.now.sample, name)) if known else None


def _tasks(standing: Standing) -> Iterator[Metric]:
    found = list(_running(standing))
    for series in TASK_SERIES:
        family = (UnknownMetricFamily if series.counts else GaugeMetricFamily)(
            series.name, series.text, labels=TASK_LABELS
        )
        for figures in found:
            value = series.value(figures)
            if value is not None:
                family.add_metric(figures.labels, value)
        yield family
    busy = GaugeMetricFamily("task_gpu_percent", "Percent of the time that a task's GPU was busy.", labels=GPU_LABELS)
    full = GaugeMetricFamily("task_gpu_mem_percent", "Percent of its memory that is used.", labels=GPU_LABELS)
    for figures in found:
        for gpu in figures.now.reading.gpus:
            labels = (*figures.labels, str(gpu.index))
            busy.add_metric(labels, gpu.percent)
            if gpu.memory_total:
                full.add_metric(labels, 100.0 * gpu.memory / gpu.memory_total)
    yield busy
    yield full


def _running(standing: Standing) -> Iterator[_Figures]:
    for job, task, now in standing.running:
        if task.state is TaskState.RUNNING:
            limit = now.reading.memory_limit or job.job.role(task.role).resources.memory
            yield _Figures(_task_labels(job, task), limit, now)


def _task_labels(job: JobSnapshot, task: TaskAttempt) -> tuple[str, ...]:
    values = (
        job.user,
        framework_name(job.user, job.job.name),
        task.role,
        task.index,
        attempt_uid(job.id, job.attempt),
        job.job.group,
    )
    return tuple(clean(value) for value in values)


# -- jobs and the queue


def _jobs(standing: Standing) -> Iterator[Metric]:
    jobs = Counter(job.state for job in standing.jobs)
    yield _gauge("holdfast_jobs", "Jobs that have not ended.", "state", {state: jobs[state] for state in LIVE_JOBS})
    tasks = Counter(task.state for job in standing.jobs for task in job.tasks)
    yield _gauge(
        "holdfast_tasks", "Tasks of jobs that have not ended.", "state", {state: tasks[state] for state in LIVE_TASKS}
    )


def _queue(standing: Standing) -> Iterator[Metric]:
    waiting = [job for job in standing.jobs if job.state is JobState.PENDING]
    yield GaugeMetricFamily("holdfast_queue_length", "Jobs that wait.", value=len(waiting))
    groups = dict.fromkeys([use.group for use in standing.groups], 0) | Counter(job.job.group for job in waiting)
    yield _gauge("holdfast_jobs_waiting", "Jobs of a group that wait.", "group", groups)
    oldest: dict[str, float] = {}
    for job in waiting:
        wait = (standing.at - job.submitted_at).total_seconds()
        if job.started_at is None:  # one that waits for its next attempt has had its turn
            oldest[job.job.group] = max(oldest.get(job.job.group, 0.0), wait)
    yield _gauge("holdfast_queue_oldest_wait_seconds", "How long the job waits that waits longest.", "group", oldest)


def _totals(standing: Standing) -> Iterator[Metric]:
    totals = standing.totals
    yield CounterMetricFamily(
        "holdfast_jobs_submitted", "Jobs submitted since the server started.", value=totals.get(JobState.PENDING, 0)
    )
    ended = CounterMetricFamily("holdfast_jobs_ended", "Jobs that ended since the server started.", labels=["result"])
    for state in sorted(FINAL):
        ended.add_metric([state.value.lower()], totals.get(state, 0))
    yield ended


# -- machines, groups, disks


def _nodes(nodes: Sequence[NodeUse]) -> Iterator[Metric]:
    for name, unit, of in _AMOUNTS:
        whole = {use.node.name: of(use.node.whole) for use in nodes}
        yield _gauge(f"holdfast_node_{name}", f"{unit} of a machine that jobs may use.", "node", whole)
        free = {use.node.name: of(use.free) for use in nodes}
        yield _gauge(f"holdfast_node_{name}_free", f"{unit} of a machine that no job has.", "node", free)


def _groups(groups: Sequence[GroupUse]) -> Iterator[Metric]:
    for name, unit, of in _AMOUNTS:
        used = {use.group: of(use.used) for use in groups}
        yield _gauge(f"holdfast_group_{name}_used", f"{unit} that a group's jobs have.", "group", used)
        quotas = {use.group: quota for use in groups if (quota := of(use.quota)) is not None}
        yield _gauge(f"holdfast_group_{name}_quota", f"{unit} that a group's jobs may have.", "group", quotas)


def _cpu(amount: Amount | Quota) -> float | None:
    return amount.cpu


def _memory(amount: Amount | Quota) -> float | None:
    return amount.memory


def _gpu(amount: Amount | Quota) -> float | None:
    return amount.gpu


_AMOUNTS = (("cpu_cores", "Cores", _cpu), ("memory_bytes", "Bytes of memory", _memory), ("gpus", "GPUs", _gpu))


def _around(standing: Standing) -> Iterator[Metric]:
    yield GaugeMetricFamily("holdfast_well", "1: database and controller work.", value=float(standing.health.well))
    present = {condition.kind for condition in standing.health.conditions}
    kinds = {kind.value: float(kind in present) for kind in ConditionKind}
    yield _gauge("holdfast_condition", "1: the installation has this problem now.", "kind", kinds)
    free = {disk.path: disk.free for disk in standing.disks if disk.free is not None}
    yield _gauge("holdfast_disk_free_bytes", "Bytes that are free where the server keeps its files.", "path", free)
    sizes = {disk.path: disk.total for disk in standing.disks if disk.total is not None}
    yield _gauge("holdfast_disk_size_bytes", "Bytes in all where the server keeps its files.", "path", sizes)
    yield _gauge(
        "holdfast_notifications", "Notifications by what became of them.", "state", dict(standing.notifications)
    )


def _gauge(name: str, text: str, label: str, values: Mapping[Any, float | None]) -> Metric:
    family = GaugeMetricFamily(name, text, labels=[label])
    for key, value in values.items():
        family.add_metric([clean(key)], value or 0)
    return family


class Together:
    """Several sources of metrics as one."""

    def __init__(self, *sources: Iterable[Metric]) -> None:
        self._sources = sources

    def collect(self) -> Iterator[Metric]:
        for source in self._sources:
            yield from source
