"""SKU types: instance types as OpenPAI's clients see them, and validation of SKUs in OpenPAI job files.

A virtual cluster is a group. Its number of SKUs of a type is how many fit on the nodes, within the group's quota.
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
from holdfast.jobspec.fields import build_similar_name_hint
from holdfast.store import people
from holdfast.store.database import Store

from .instance_types import InstanceTypes, is_type_available

_NO_QUOTA = Quota()
_MAX_SKU_COUNT = 10_000
_OPPORTUNISTIC_CLASS = "oppo"  # uses idle resources, so no capacity limit applies


class Sku(NamedTuple):
    cpu: float
    memory: int  # bytes
    gpu: int


@dataclass(frozen=True, slots=True)
class CellRequest:
    """The scheduler settings of one role of a job."""

    role: Role
    sku: str | None
    pinned: str | None
    affinity: str | None
    sku_number: int | None


class SkuRequest(NamedTuple):
    name: str
    number: int | None  # None: as many as the role needs


SkuTypes = Mapping[str, Sku]


def sku_from_type(type: InstanceType) -> Sku:
    return Sku(type.cpu, type.memory, type.gpu)


def compute_sku_capacity(sku: Sku, nodes: Sequence[Node], quota: Quota = _NO_QUOTA) -> int:
    """Return how many SKUs fit at one time."""
    here = sum(_count_fitting_skus(sku, node.cpu, node.memory, len(node.gpus)) for node in nodes)
    return min(here, _count_fitting_skus(sku, quota.cpu, quota.memory, quota.gpu))


def count_needed_skus(resources: Resources, sku: Sku) -> int:
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

    async def load_sku_types(self, actor: Actor, group: str | None = None) -> dict[str, Sku]:
        """Return the types that the actor can see; with a group, those of which at least one fits."""
        found = {type.name: type for type in await self._instance_types.list(actor)}
        if group is None:
            return {name: sku_from_type(type) for name, type in found.items()}
        quota, nodes = await self._load_quota(actor, group), self._engine.list_nodes()
        skus = {name: sku_from_type(type) for name, type in found.items() if is_type_available(type, group)}
        return {name: sku for name, sku in skus.items() if compute_sku_capacity(sku, nodes, quota) > 0}

    async def check_job(self, actor: Actor, job: Job) -> None:
        """Raise InvalidJob with all problems of the SKUs of an OpenPAI job; other formats have none."""
        if not job.dialect.is_openpai:
            return
        scheduler = _get_scheduler_config(job)
        cells = list(_iter_cells(job, scheduler))
        if not any(cell.sku or cell.pinned or cell.affinity for cell in cells):
            return
        known = (await self._instance_types.load_all()).values()
        # Files name the SKU types of their original cluster, which the default sizes do not match.
        if all(type.brought for type in known):
            return
        types = {type.name: sku_from_type(type) for type in known if is_type_available(type, job.group)}
        problems = [*_iter_cell_problems(types, cells), *_iter_affinity_problems(cells)]
        if not problems and job.gang and scheduler.get("jobPriorityClass") != _OPPORTUNISTIC_CLASS:
            problems = self._list_capacity_problems(types, job, cells, await self._load_quota(actor, job.group))
        if problems:
            raise InvalidJob(problems)

    async def _load_quota(self, actor: Actor, group: str) -> Quota:
        """Return the quota; none for non-members, because errors must not reveal it."""
        if not actor.admin and group not in actor.groups:
            return _NO_QUOTA
        found = await self._store.read(people.get_group, group)
        return _NO_QUOTA if found is None else found.quota

    def _list_capacity_problems(
        self, types: SkuTypes, job: Job, cells: list[CellRequest], quota: Quota
    ) -> list[Problem]:
        nodes = self._engine.list_nodes()
        wanted: dict[str, int] = {}
        first: dict[str, CellRequest] = {}
        for cell in cells:
            if cell.sku is not None:
                count = count_needed_skus(cell.role.resources, types[cell.sku]) * cell.role.instances
                wanted[cell.sku] = wanted.get(cell.sku, 0) + count
                first.setdefault(cell.sku, cell)
        found = []
        for name, count in wanted.items():
            most = compute_sku_capacity(types[name], nodes, quota)
            if not most:
                message = msg("SKU type {name} is not available in VC {group}.", name=name, group=job.group)
                found.append(_build_problem(first[name], "skuType", message))
            elif count > most:
                message = msg(
                    "Job requests {count} SKUs, exceeds maximum {limit} SKUs in VC {group}.",
                    count=count,
                    limit=most,
                    group=job.group,
                )
                found.append(_build_problem(first[name], "skuType", message))
        return found


def find_sku_requests(job: Job) -> dict[str, SkuRequest]:
    """Return the SKUs that an OpenPAI job requests, by role; other formats have none."""
    if not job.dialect.is_openpai:
        return {}
    cells = _iter_cells(job, _get_scheduler_config(job))
    return {cell.role.name: SkuRequest(cell.sku, cell.sku_number) for cell in cells if cell.sku is not None}


def _get_scheduler_config(job: Job) -> Mapping[str, Any]:
    value: Any = job.extras
    for key in ("openpai", "config", "extras", "hivedScheduler"):
        value = value.get(key) if isinstance(value, Mapping) else None
    return value if isinstance(value, Mapping) else {}


def _iter_cells(job: Job, scheduler: Mapping[str, Any]) -> Iterator[CellRequest]:
    written = scheduler.get("taskRoles")
    for role in job.roles:
        cell = written.get(role.name) if isinstance(written, Mapping) else None
        if isinstance(cell, Mapping):
            yield CellRequest(
                role,
                _get_text(cell, "skuType"),
                _get_text(cell, "pinnedCellId"),
                _get_text(cell, "affinityGroupName"),
                _get_sku_number(cell),
            )


def _get_text(cell: Mapping[str, Any], key: str) -> str | None:
    value = cell.get(key)
    return value if isinstance(value, str) and value else None


def _get_sku_number(cell: Mapping[str, Any]) -> int | None:
    """Return skuNum, which OpenPAI's portal writes and its server ignores."""
    value = cell.get("skuNum")
    is_count = isinstance(value, int) and not isinstance(value, bool) and 1 <= value <= _MAX_SKU_COUNT
    return value if is_count else None


def _iter_cell_problems(types: SkuTypes, cells: list[CellRequest]) -> Iterator[Problem]:
    known = ", ".join(sorted(types))
    for cell in cells:
        if cell.pinned is not None:
            why = msg("Cell {pinned} not found: this server has no pinned cells", pinned=repr(cell.pinned[:100]))
            yield _build_problem(cell, "pinnedCellId", why, msg("Use a skuType instead: {known}.", known=known))
        if cell.sku is None:
            continue
        sku = types.get(cell.sku)
        if sku is None:
            hint = build_similar_name_hint(cell.sku, types) or msg("Known values: {known}.", known=known)
            yield _build_problem(cell, "skuType", msg("SKU type {sku} not found", sku=repr(cell.sku[:100])), hint)
        elif cell.role.resources.gpu and not sku.gpu:
            why = msg(
                "{name} requests {gpu} GPU, but {sku} has none",
                name=cell.role.name,
                gpu=cell.role.resources.gpu,
                sku=cell.sku,
            )
            yield _build_problem(cell, "skuType", why, msg("Choose a SKU type with GPUs, or request no GPUs."))


def _iter_affinity_problems(cells: list[CellRequest]) -> Iterator[Problem]:
    """Yield affinity groups whose roles differ: they are placed together, on one kind of node."""
    first: dict[str, CellRequest] = {}
    for cell in cells:
        if cell.affinity is None:
            continue
        other = first.setdefault(cell.affinity, cell)
        if (cell.sku, cell.pinned) != (other.sku, other.pinned):
            why = msg(
                "{name} and {other_name} are in this affinity group but differ in skuType or pinnedCellId",
                name=cell.role.name,
                other_name=other.role.name,
            )
            yield _build_problem(
                cell,
                "affinityGroupName",
                why,
                msg("Use the same values for both, or put them in separate affinity groups."),
            )


def _build_problem(cell: CellRequest, key: str, message: str, hint: str | None = None) -> Problem:
    return Problem(f"extras.hivedScheduler.taskRoles.{cell.role.name}.{key}", message, hint, rule="placement")


def _count_fitting_skus(sku: Sku, cpu: float | None, memory: int | None, gpu: int | None) -> int:
    """Return how many SKUs fit; None: no limit."""
    fits = [
        math.floor(cpu / sku.cpu + EPSILON) if cpu is not None else None,
        memory // sku.memory if memory is not None else None,
        gpu // sku.gpu if gpu is not None and sku.gpu else None,
    ]
    return min((count for count in fits if count is not None), default=2**63)
