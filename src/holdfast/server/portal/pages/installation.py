"""Machines and health, for admins: what there is, what is in use, and what is not as it should be."""

from __future__ import annotations

from dataclasses import dataclass

from starlette.responses import Response

from holdfast.core.scheduling.placement import NodeUse
from holdfast.services.installation.status import Disk, Inspection

from ..routes import page
from ..visit import Visit

LITTLE = 0.05  # of a disk; less is told
GIB = 1 << 30


@dataclass(frozen=True, slots=True, kw_only=True)
class Machine:
    name: str
    address: str
    cpu: float
    cpu_used: float
    memory: int
    memory_used: int
    gpu: int
    gpu_used: int
    ports: str


@dataclass(frozen=True, slots=True, kw_only=True)
class DiskRow:
    disk: Disk
    low: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class PlacePage:
    found: Inspection
    machines: tuple[Machine, ...]
    disks: tuple[DiskRow, ...]


async def show_place(visit: Visit) -> Response:
    found = await visit.services.place.inspect(visit.who)
    shown = PlacePage(
        found=found,
        machines=tuple(_machine(use) for use in found.nodes),
        disks=tuple(DiskRow(disk=disk, low=_is_low(disk)) for disk in found.disks),
    )
    return await visit.show("place/_state.html" if visit.wants_part else "place/detail.html", shown)


def _machine(use: NodeUse) -> Machine:
    node, free = use.node, use.free
    return Machine(
        name=node.name,
        address=node.address,
        cpu=node.cpu,
        cpu_used=max(0.0, node.cpu - free.cpu),
        memory=node.memory,
        memory_used=max(0, node.memory - free.memory),
        gpu=len(node.gpus),
        gpu_used=max(0, len(node.gpus) - free.gpu),
        ports=f"{node.port_start}–{node.port_end - 1}",
    )


def _is_low(disk: Disk) -> bool:
    return disk.free is not None and (disk.free < GIB or disk.free < LITTLE * (disk.total or 0))


routes = [page("/admin/place", show_place, admin=True)]
