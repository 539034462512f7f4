"""Machines and health, for admins: capacity, usage and problems."""

from __future__ import annotations

from dataclasses import dataclass

from starlette.responses import Response

from holdfast.core.scheduling.placement import Node, NodeUsage, ResourceAmount
from holdfast.services.installation.status import DiskUsage, ServerDetails

from ..routes import build_page_route
from ..visit import Visit

MIN_FREE_DISK_SHARE = 0.05  # free share of a disk; less is shown as low
MIN_FREE_DISK_SIZE = 1 << 30  # bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeRow:
    node: Node
    used: ResourceAmount
    waiting: int


@dataclass(frozen=True, slots=True, kw_only=True)
class DiskRow:
    disk: DiskUsage
    low: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class InstallationPage:
    inspection: ServerDetails
    machines: tuple[NodeRow, ...]
    disks: tuple[DiskRow, ...]


async def show_installation(visit: Visit) -> Response:
    found = await visit.services.installation.inspect_server(visit.current_actor)
    shown = InstallationPage(
        inspection=found,
        machines=tuple(
            NodeRow(node=use.node, used=_compute_used_amount(use), waiting=use.waiting) for use in found.nodes
        ),
        disks=tuple(DiskRow(disk=disk, low=_is_disk_low(disk)) for disk in found.disks),
    )
    return await visit.render_response(
        "installation/_state.html" if visit.wants_part else "installation/detail.html", shown
    )


def _compute_used_amount(use: NodeUsage) -> ResourceAmount:
    return use.node.capacity.minus(use.free).elementwise_max(ResourceAmount())


def _is_disk_low(disk: DiskUsage) -> bool:
    return disk.free is not None and (
        disk.free < MIN_FREE_DISK_SIZE or disk.free < MIN_FREE_DISK_SHARE * (disk.total or 0)
    )


routes = [build_page_route("/admin/installation", show_installation, admin=True)]
