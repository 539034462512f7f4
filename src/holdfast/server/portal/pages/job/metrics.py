"""Charts of the metrics of a job, a role or a task. A script draws and updates them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import islice

from holdfast.core.metrics.samples import RING_BUFFER_SPECS
from holdfast.services.jobs.job_pages import JobHeader

from ....rest.routing import API_PREFIX
from ...visit import Visit
from .view import Section, build_job_address, encode_query

MAX_TASK_CHOICES = 200  # tasks that can be chosen by name


@dataclass(frozen=True, slots=True, kw_only=True)
class RingChoice:
    name: str
    title: str
    address: str


@dataclass(frozen=True, slots=True, kw_only=True)
class MetricsView:
    ring: str
    rings: tuple[RingChoice, ...]
    roles: tuple[str, ...]  # choices, if there are several
    tasks: tuple[str, ...]
    role: str
    task: str
    source: str  # URL of the metrics for the script
    live: bool
    measured: bool  # metrics are enabled on this server


async def _load_metrics(visit: Visit, job: JobHeader) -> MetricsView:
    query, record = visit.query, job.record
    ring = (
        _get_known_name(query.get("ring", ""), [each.name for each in RING_BUFFER_SPECS]) or RING_BUFFER_SPECS[0].name
    )
    roles = tuple(role.name for role in record.job.roles)
    tasks = _list_task_names(job)
    role, task = _get_known_name(query.get("role", ""), roles), _get_known_name(query.get("task", ""), tasks)
    chosen = {"role": "" if task else role, "task": task}
    return MetricsView(
        ring=ring,
        rings=tuple(
            RingChoice(
                name=each.name,
                title=_build_ring_titles(visit)[each.name],
                address=build_job_address(record.summary.id, {"section": "metrics", "ring": each.name, **chosen}),
            )
            for each in RING_BUFFER_SPECS
        ),
        roles=roles if len(roles) > 1 else (),
        tasks=tasks if len(tasks) > 1 else (),
        role=role,
        task=task,
        source=f"{API_PREFIX}/jobs/{record.summary.id}/metrics?{encode_query({'ring': ring, **chosen})}",
        live=not record.summary.state.final,
        measured=visit.services.settings.metrics.enabled,
    )


def _list_task_names(job: JobHeader) -> tuple[str, ...]:
    names = (f"{role.name}-{index}" for role in job.record.job.roles for index in range(role.instances))
    return tuple(islice(names, MAX_TASK_CHOICES))


def _get_known_name(name: str, known: Sequence[str]) -> str:
    return name if name in known else ""


def _build_ring_titles(visit: Visit) -> dict[str, str]:
    return {
        "15m": visit.translate_text("15 minutes"),
        "1h": visit.translate_text("1 hour"),
        "3h": visit.translate_text("3 hours"),
        "lifetime": visit.translate_text("Lifetime"),
    }


SECTION = Section(
    key="metrics",
    title=lambda visit: visit.translate_text("Metrics"),
    template="job/_metrics.html",
    load=_load_metrics,
    available=lambda job: job.record.summary.started_at is not None,
)
