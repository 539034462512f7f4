"""What the job uses: charts over time, of the whole job, a role or a task. A script draws them and keeps them fresh."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from urllib.parse import urlencode

from holdfast.core.metrics.samples import RINGS
from holdfast.services.jobs.detail import Closeup

from ....rest.addresses import PREFIX
from ...visit import Visit
from .view import Section, job_address

MAX_CHOICES = 200  # tasks that can be chosen by name


@dataclass(frozen=True, slots=True, kw_only=True)
class RingChoice:
    name: str
    title: str
    address: str


@dataclass(frozen=True, slots=True, kw_only=True)
class FiguresData:
    ring: str
    rings: tuple[RingChoice, ...]
    roles: tuple[str, ...]  # to choose from, where there are several
    tasks: tuple[str, ...]
    role: str
    task: str
    source: str  # where the script finds the figures
    live: bool
    measured: bool  # the place measures at all


async def _load(visit: Visit, job: Closeup) -> FiguresData:
    query, record = visit.request.query_params, job.record
    asked = query.get("ring", "")
    ring = asked if asked in {each.name for each in RINGS} else RINGS[0].name
    roles = tuple(role.name for role in record.job.roles)
    tasks = _tasks(job)
    role, task = _known(query.get("role", ""), roles), _known(query.get("task", ""), tasks)
    chosen = {"role": "" if task else role, "task": task}
    return FiguresData(
        ring=ring,
        rings=tuple(
            RingChoice(
                name=each.name,
                title=_titles(visit)[each.name],
                address=job_address(record.summary.id, {"section": "figures", "ring": each.name, **chosen}),
            )
            for each in RINGS
        ),
        roles=roles if len(roles) > 1 else (),
        tasks=tasks if len(tasks) > 1 else (),
        role=role,
        task=task,
        source=f"{PREFIX}/jobs/{record.summary.id}/metrics?"
        + urlencode({name: value for name, value in {"ring": ring, **chosen}.items() if value}),
        live=not record.summary.state.final,
        measured=visit.services.settings.metrics.enabled,
    )


def _tasks(job: Closeup) -> tuple[str, ...]:
    found = (f"{role.name}-{index}" for role in job.record.job.roles for index in range(role.instances))
    return tuple(name for _, name in zip(range(MAX_CHOICES), found, strict=False))


def _known(asked: str, names: Sequence[str]) -> str:
    return asked if asked in names else ""


def _titles(visit: Visit) -> dict[str, str]:
    return {
        "15m": visit.say("15 minutes"),
        "1h": visit.say("1 hour"),
        "3h": visit.say("3 hours"),
        "lifetime": visit.say("Lifetime"),
    }


SECTION = Section(
    key="figures",
    title=lambda visit: visit.say("Figures"),
    template="job/_figures.html",
    load=_load,
    available=lambda job: job.record.summary.started_at is not None,
)
