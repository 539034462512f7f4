"""Machines and health, for admins: capacity, usage and problems."""

from __future__ import annotations

from dataclasses import dataclass

from starlette.responses import Response

from holdfast.core.scheduling.placement import Amount, Node, NodeUsage
from holdfast.services.installation.status import Disk, Inspection

from ..routes import build_page_route
from ..visit import Visit

LOW_DISK_SHARE = 0.05  # free share of a disk; less is shown as low
GIB = 1 << 30


@dataclass(frozen=True, slots=True, kw_only=True)
class MachineRow:
    node: Node
    used: Amount


@dataclass(frozen=True, slots=True, kw_only=True)
class DiskRow:
    disk: Disk
    low: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class InstallationPage:
    inspection: Inspection
    machines: tuple[MachineRow, ...]
    disks: tuple[DiskRow, ...]


async def show_installation(visit: Visit) -> Response:
    found = await visit.services.installation.inspect_server(visit.current_actor)
    shown = InstallationPage(
        inspection=found,
        machines=tuple(MachineRow(node=use.node, used=_compute_used(use)) for use in found.nodes),
        disks=tuple(DiskRow(disk=disk, low=_is_low(disk)) for disk in found.disks),
    )
    return await visit.respond("installation/_state.html" if visit.wants_part else "installation/detail.html", shown)


def _compute_used(use: NodeUsage) -> Amount:
    return use.node.capacity.minus(use.free).elementwise_max(Amount())


def _is_low(disk: Disk) -> bool:
    return disk.free is not None and (disk.free < GIB or disk.free < LOW_DISK_SHARE * (disk.total or 0))


routes = [build_page_route("/admin/installation", show_installation, admin=True)]
