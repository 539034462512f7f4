"""The server's state as Prometheus metrics: OpenPAI's names for tasks and GPUs, our own for the rest.

Only running tasks have series, so their number is bounded by the nodes. Values that were not measured are left out.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from operator import attrgetter
from typing import Any, NamedTuple

from prometheus_client.metrics_core import CounterMetricFamily, GaugeMetricFamily, Metric, UnknownMetricFamily

from holdfast.core.attempt import JobSnapshot, TaskAttempt
from holdfast.core.conditions import ConditionKind
from holdfast.core.identity import build_attempt_uid, build_framework_name
from holdfast.core.metrics.samples import CurrentMetrics
from holdfast.core.scheduling.placement import GroupUsage, NodeUsage
from holdfast.core.states import FINAL_STATES, JobState, TaskState
from holdfast.services.installation.monitoring import MonitoringSnapshot

from .prometheus_gpus import clean_label, collect_gpu_metrics

TASK_LABELS = ("username", "job_name", "role_name", "task_index", "job_instance_id", "virtual_cluster")
GPU_LABELS = (*TASK_LABELS, "minor_number")
LIVE_JOB_STATES = tuple(state for state in JobState if state not in FINAL_STATES)
LIVE_TASK_STATES = (TaskState.WAITING, TaskState.PREPARING, TaskState.RUNNING, TaskState.HELD)


def collect_metrics(standing: MonitoringSnapshot) -> Iterator[Metric]:
    yield from _collect_task_metrics(standing)
    yield from collect_gpu_metrics(standing)
    yield from _collect_job_metrics(standing)
    yield from _collect_queue_metrics(standing)
    yield from _collect_job_totals(standing)
    yield from _collect_node_metrics(standing.nodes)
    yield from _collect_group_metrics(standing.groups)
    yield from _collect_server_metrics(standing)


# -- tasks, with OpenPAI's names


class _TaskMetrics(NamedTuple):
    labels: tuple[str, ...]
    memory_limit: int
    now: CurrentMetrics


class _TaskSeries(NamedTuple):
    name: str
    text: str
    value: Callable[[_TaskMetrics], float | None]
    counts: bool = False  # monotonic; "unknown" to the library, which would rename a counter


TASK_SERIES = (
    _TaskSeries("task_cpu_percent", "CPU usage of a task in percent; 100 is one core.", lambda f: f.now.sample.cpu),
    _TaskSeries("task_mem_usage_byte", "Memory usage of a task in bytes.", lambda f: f.now.sample.memory),
    _TaskSeries("task_mem_limit_byte", "Memory limit of a task in bytes.", lambda f: f.memory_limit),
    _TaskSeries(
        "task_mem_usage_percent", "Memory usage of a task in percent of its limit.", lambda f: _get_memory_percent(f)
    ),
    _TaskSeries("task_net_in_byte", "TCP bytes per second received by a task.", lambda f: _get_rate(f, "net_in")),
    _TaskSeries("task_net_out_byte", "TCP bytes per second sent by a task.", lambda f: _get_rate(f, "net_out")),
    _TaskSeries("task_block_in_byte", "Bytes read from disk by a task.", lambda f: f.now.reading.disk_read, True),
    _TaskSeries("task_block_out_byte", "Bytes written to disk by a task.", lambda f: f.now.reading.disk_written, True),
)


def _get_memory_percent(task: _TaskMetrics) -> float | None:
    return 100.0 * task.now.sample.memory / task.memory_limit if task.memory_limit else None


def _get_rate(task: _TaskMetrics, name: str) -> float | None:
    """Return None where the counter is missing, rather than a rate of 0."""
    known = getattr(task.now.reading, name) is not None
    return float(getattr(task.now.sample, name)) if known else None


def _collect_task_metrics(standing: MonitoringSnapshot) -> Iterator[Metric]:
    found = list(_iter_running_tasks(standing))
    for series in TASK_SERIES:
        family = (UnknownMetricFamily if series.counts else GaugeMetricFamily)(
            series.name, series.text, labels=TASK_LABELS
        )
        for task in found:
            value = series.value(task)
            if value is not None:
                family.add_metric(task.labels, value)
        yield family
    busy = GaugeMetricFamily("task_gpu_percent", "Utilization of a task's GPU in percent.", labels=GPU_LABELS)
    full = GaugeMetricFamily("task_gpu_mem_percent", "Memory in use on a task's GPU in percent.", labels=GPU_LABELS)
    for task in found:
        for gpu in task.now.reading.gpus:
            labels = (*task.labels, str(gpu.index))
            busy.add_metric(labels, gpu.percent)
            if gpu.memory_total:
                full.add_metric(labels, 100.0 * gpu.memory / gpu.memory_total)
    yield busy
    yield full


def _iter_running_tasks(standing: MonitoringSnapshot) -> Iterator[_TaskMetrics]:
    for job, task, now in standing.running:
        if task.state is TaskState.RUNNING:
            limit = now.reading.memory_limit or job.job.get_role(task.role).resources.memory
            yield _TaskMetrics(_build_task_labels(job, task), limit, now)


def _build_task_labels(job: JobSnapshot, task: TaskAttempt) -> tuple[str, ...]:
    values = (
        job.user,
        build_framework_name(job.user, job.job.name),
        task.role,
        task.index,
        build_attempt_uid(job.id, job.attempt),
        job.job.group,
    )
    return tuple(clean_label(value) for value in values)


# -- jobs and the queue


def _collect_job_metrics(standing: MonitoringSnapshot) -> Iterator[Metric]:
    jobs = Counter(job.state for job in standing.jobs)
    yield _build_gauge(
        "holdfast_jobs", "Unfinished jobs by state.", "state", {state: jobs[state] for state in LIVE_JOB_STATES}
    )
    tasks = Counter(task.state for job in standing.jobs for task in job.tasks)
    yield _build_gauge(
        "holdfast_tasks",
        "Tasks of unfinished jobs by state.",
        "state",
        {state: tasks[state] for state in LIVE_TASK_STATES},
    )


def _collect_queue_metrics(standing: MonitoringSnapshot) -> Iterator[Metric]:
    waiting = [job for job in standing.jobs if job.state is JobState.PENDING]
    yield GaugeMetricFamily("holdfast_queue_length", "Pending jobs.", value=len(waiting))
    groups = dict.fromkeys([use.group for use in standing.groups], 0) | Counter(job.job.group for job in waiting)
    yield _build_gauge("holdfast_jobs_waiting", "Pending jobs by group.", "group", groups)
    oldest: dict[str, float] = {}
    for job in waiting:
        wait = (standing.at - job.submitted_at).total_seconds()
        if job.started_at is None:  # a job between two attempts is not in the queue
            oldest[job.job.group] = max(oldest.get(job.job.group, 0.0), wait)
    yield _build_gauge("holdfast_queue_oldest_wait_seconds", "Longest wait of a pending job.", "group", oldest)


def _collect_job_totals(standing: MonitoringSnapshot) -> Iterator[Metric]:
    totals = standing.totals
    yield CounterMetricFamily(
        "holdfast_jobs_submitted", "Jobs submitted since the server started.", value=totals.get(JobState.PENDING, 0)
    )
    ended = CounterMetricFamily("holdfast_jobs_ended", "Jobs finished since the server started.", labels=["result"])
    for state in sorted(FINAL_STATES):
        ended.add_metric([state.value.lower()], totals.get(state, 0))
    yield ended


# -- nodes, groups, disks


def _collect_node_metrics(nodes: Sequence[NodeUsage]) -> Iterator[Metric]:
    for name, unit, of in _AMOUNT_METRICS:
        whole = {use.node.name: of(use.node.capacity) for use in nodes}
        yield _build_gauge(f"holdfast_node_{name}", f"{unit} of a node available to jobs.", "node", whole)
        free = {use.node.name: of(use.free) for use in nodes}
        yield _build_gauge(f"holdfast_node_{name}_free", f"{unit} of a node not in use by jobs.", "node", free)


def _collect_group_metrics(groups: Sequence[GroupUsage]) -> Iterator[Metric]:
    for name, unit, of in _AMOUNT_METRICS:
        used = {use.group: of(use.used) for use in groups}
        yield _build_gauge(f"holdfast_group_{name}_used", f"{unit} in use by a group's jobs.", "group", used)
        quotas = {use.group: quota for use in groups if (quota := of(use.quota)) is not None}
        yield _build_gauge(f"holdfast_group_{name}_quota", f"{unit} in a group's quota.", "group", quotas)


_AMOUNT_METRICS = (
    ("cpu_cores", "Cores", attrgetter("cpu")),
    ("memory_bytes", "Bytes of memory", attrgetter("memory")),
    ("gpus", "GPUs", attrgetter("gpu")),
)


def _collect_server_metrics(standing: MonitoringSnapshot) -> Iterator[Metric]:
    yield GaugeMetricFamily(
        "holdfast_well", "1: database and controller work.", value=float(standing.health.is_healthy)
    )
    present = {condition.kind for condition in standing.health.conditions}
    kinds = {kind.value: float(kind in present) for kind in ConditionKind}
    yield _build_gauge("holdfast_condition", "1: the installation has this condition.", "kind", kinds)
    free = {disk.path: disk.free for disk in standing.disks if disk.free is not None}
    yield _build_gauge("holdfast_disk_free_bytes", "Free bytes on the disk of the server's data.", "path", free)
    sizes = {disk.path: disk.total for disk in standing.disks if disk.total is not None}
    yield _build_gauge("holdfast_disk_size_bytes", "Total bytes on the disk of the server's data.", "path", sizes)
    yield _build_gauge(
        "holdfast_notifications", "Notifications by delivery result.", "state", dict(standing.notifications)
    )


def _build_gauge(name: str, text: str, label: str, values: Mapping[Any, float | None]) -> Metric:
    family = GaugeMetricFamily(name, text, labels=[label])
    for key, value in values.items():
        family.add_metric([clean_label(key)], value or 0)
    return family


class CombinedCollector:
    """Combines several metric collectors."""

    def __init__(self, *sources: Iterable[Metric]) -> None:
        self._sources = sources

    def collect(self) -> Iterator[Metric]:
        for source in self._sources:
            yield from source
