"""SKU types: instance types as OpenPAI's clients know them, and what its files may ask of them.

A virtual cluster is a group. It has as many SKUs of a type as the machines hold whole ones, within the group's quota.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from holdfast.core.access import Actor
from holdfast.core.catalogue import InstanceType
from holdfast.core.errors import InvalidJob, Problem
from holdfast.core.job import Job, Resources, Role
from holdfast.core.messages import msg
from holdfast.core.scheduling.placement import EPSILON, Node, Quota
from holdfast.engines.base import Engine
from holdfast.jobspec.fields import guess
from holdfast.store import people
from holdfast.store.database import Store

from .instance_types import InstanceTypes, is_for

_NO_BOUND = Quota()
_OPPORTUNISTIC = "oppo"  # runs on what is left over, so no cluster's size counts


class Sku(NamedTuple):
    cpu: float
    memory: int  # bytes
    gpu: int


@dataclass(frozen=True, slots=True)
class Cell:
    """What a job asks of the scheduler for one of its roles."""

    role: Role
    sku: str | None
    pinned: str | None
    affinity: str | None


Types = Mapping[str, Sku]


def sku_of(type: InstanceType) -> Sku:
    return Sku(type.cpu, type.memory, type.gpu)


def sku_capacity(sku: Sku, nodes: Sequence[Node], quota: Quota = _NO_BOUND) -> int:
    """How many of them there can be at one time."""
    here = sum(_whole(sku, node.cpu, node.memory, len(node.gpus)) for node in nodes)
    return min(here, _whole(sku, quota.cpu, quota.memory, quota.gpu))


def skus_of(resources: Resources, sku: Sku) -> int:
    """How many one task takes."""
    return max(
        math.ceil(resources.cpu / sku.cpu - EPSILON),
        -(-resources.memory // sku.memory),
        -(-resources.gpu // sku.gpu) if sku.gpu else 0,
        1,
    )


class Skus:
    def __init__(self, store: Store, engine: Engine, instance_types: InstanceTypes) -> None:
        self._store = store
        self._engine = engine
        self._instance_types = instance_types

    async def types(self, actor: Actor, group: str | None = None) -> dict[str, Sku]:
        """All that one may see; with a group, those it can have at least one of."""
        found = {type.name: type for type in await self._instance_types.list(actor)}
        if group is None:
            return {name: sku_of(type) for name, type in found.items()}
        quota, nodes = await self._quota(actor, group), self._engine.nodes()
        skus = {name: sku_of(type) for name, type in found.items() if is_for(type, group)}
        return {name: sku for name, sku in skus.items() if sku_capacity(sku, nodes, quota) > 0}

    async def check(self, actor: Actor, job: Job) -> None:
        """InvalidJob with everything that its SKUs cannot be. Files of other kinds have none."""
        if not job.dialect.openpai:
            return
        scheduler = _scheduler(job)
        cells = list(_cells(job, scheduler))
        if not any(cell.sku or cell.pinned or cell.affinity for cell in cells):
            return
        known = (await self._instance_types.known()).values()
        # Files name the SKU types of the cluster they come from, which the sizes we bring along know nothing of.
        if all(type.brought for type in known):
            return
        types = {type.name: sku_of(type) for type in known if is_for(type, job.group)}
        problems = [*_wrong_cells(types, cells), *_torn_groups(cells)]
        if not problems and job.gang and scheduler.get("jobPriorityClass") != _OPPORTUNISTIC:
            problems = self._too_many(types, job, cells, await self._quota(actor, job.group))
        if problems:
            raise InvalidJob(problems)

    async def _quota(self, actor: Actor, group: str) -> Quota:
        """The bounds of a group one is not in are not told, not even by a refusal."""
        if not actor.admin and group not in actor.groups:
            return _NO_BOUND
        found = await self._store.read(people.get_group, group)
        return _NO_BOUND if found is None else found.quota

    def _too_many(self, types: Types, job: Job, cells: list[Cell], quota: Quota) -> list[Problem]:
        nodes = self._engine.nodes()
        wanted: dict[str, int] = {}
        first: dict[str, Cell] = {}
        for cell in cells:
            if cell.sku is not None:
                count = skus_of(cell.role.resources, types[cell.sku]) * cell.role.instances
                wanted[cell.sku] = wanted.get(cell.sku, 0) + count
                first.setdefault(cell.sku, cell)
        found = []
        for name, count in wanted.items():
            most = sku_capacity(types[name], nodes, quota)
            if not most:
                message = msg("SKU type {name} is not available in VC {group}.", name=name, group=job.group)
                found.append(_problem(first[name], "skuType", message))
            elif count > most:
                message = msg(
                    "Job requests {count} SKUs, exceeds maximum {most} SKUs in VC {group}.",
                    count=count,
                    most=most,
                    group=job.group,
                )
                found.append(_problem(first[name], "skuType", message))
        return found


def _scheduler(job: Job) -> Mapping[str, Any]:
    value: Any = job.extras
    for key in ("openpai", "config", "extras", "hivedScheduler"):
        value = value.get(key) if isinstance(value, Mapping) else None
    return value if isinstance(value, Mapping) else {}


def _cells(job: Job, scheduler: Mapping[str, Any]) -> Iterator[Cell]:
    written = scheduler.get("taskRoles")
    for role in job.roles:
        cell = written.get(role.name) if isinstance(written, Mapping) else None
        if isinstance(cell, Mapping):
            yield Cell(role, _text(cell, "skuType"), _text(cell, "pinnedCellId"), _text(cell, "affinityGroupName"))


def _text(cell: Mapping[str, Any], key: str) -> str | None:
    value = cell.get(key)
    return value if isinstance(value, str) and value else None


def _wrong_cells(types: Types, cells: list[Cell]) -> Iterator[Problem]:
    known = ", ".join(sorted(types))
    for cell in cells:
        if cell.pinned is not None:
            why = msg("{pinned} is not known: no cells are pinned here", pinned=repr(cell.pinned[:100]))
            yield _problem(cell, "pinnedCellId", why, msg("Name a skuType in its place: {known}.", known=known))
        if cell.sku is None:
            continue
        sku = types.get(cell.sku)
        if sku is None:
            hint = guess(cell.sku, types) or msg("Known are: {known}.", known=known)
            yield _problem(cell, "skuType", msg("There is no SKU type {sku}", sku=repr(cell.sku[:100])), hint)
        elif cell.role.resources.gpu and not sku.gpu:
            why = msg(
                "{name} asks for {gpu} GPU, and {sku} has none",
                name=cell.role.name,
                gpu=cell.role.resources.gpu,
                sku=cell.sku,
            )
            yield _problem(cell, "skuType", why, msg("Choose a SKU type with GPUs, or ask for none."))


def _torn_groups(cells: list[Cell]) -> Iterator[Problem]:
    """Roles of one affinity group are placed side by side, so on one kind of machine."""
    first: dict[str, Cell] = {}
    for cell in cells:
        if cell.affinity is None:
            continue
        other = first.setdefault(cell.affinity, cell)
        if (cell.sku, cell.pinned) != (other.sku, other.pinned):
            why = msg(
                "{name} and {name2} share it, but not their skuType or pinnedCellId",
                name=cell.role.name,
                name2=other.role.name,
            )
            yield _problem(cell, "affinityGroupName", why, msg("Give both the same, or two affinity groups."))


def _problem(cell: Cell, key: str, message: str, hint: str | None = None) -> Problem:
    return Problem(f"extras.hivedScheduler.taskRoles.{cell.role.name}.{key}", message, hint, rule="placement")


def _whole(sku: Sku, cpu: float | None, memory: int | None, gpu: int | None) -> int:
    """How many whole ones fit; None: no bound."""
    fits = [
        math.floor(cpu / sku.cpu + EPSILON) if cpu is not None else None,
        memory // sku.memory if memory is not None else None,
        gpu // sku.gpu if gpu is not None and sku.gpu else None,
    ]
    return min((count for count in fits if count is not None), default=2**63)
