"""Virtual clusters: our groups, with their usage and quota. A quota is the cluster's guaranteed capacity."""

from __future__ import annotations

from typing import Any

from starlette.responses import Response

from holdfast.core.job import DEFAULT_GROUP, MIB
from holdfast.core.records import JobPhase, OffsetPageQuery
from holdfast.core.scheduling.placement import GroupUsage, NodeUsage, ResourceAmount
from holdfast.server.responses import respond_json
from holdfast.services.catalogue.instance_types import is_type_available

from ..call import Call
from ..endpoints import AccessLevel, Support, endpoint
from ..errors import PaiError

_CAPACITY_NOTE = "Capacities are percentages of the GPUs, or of the cores if there are no GPUs."
_NOT_SUPPORTED_NOTE = "Create and delete groups instead, below /api/v2/groups; set quotas with `holdfast group`."


@endpoint("GET", "/v2/virtual-clusters", note=f"{_CAPACITY_NOTE} With `?nodes`: the GPUs of each node.")
async def list_clusters(call: Call) -> Response:
    capacity = await call.services.installation.get_capacity(call.actor)
    if "nodes" in call.request.query_params:
        return respond_json({use.node.name: _gpus_to_json(use) for use in capacity.nodes})
    total = _sum_capacity(capacity.nodes)
    return respond_json({use.group: _cluster_to_json(use, total) for use in capacity.groups})


@endpoint("GET", "/v2/virtual-clusters/{vc}", note=_CAPACITY_NOTE)
async def get_cluster(call: Call) -> Response:
    capacity = await call.services.installation.get_capacity(call.actor)
    return respond_json(
        _cluster_to_json(_get_cluster_usage(capacity.groups, call.get_path_text("vc")), _sum_capacity(capacity.nodes))
    )


@endpoint("GET", "/v1/virtual-clusters", note=f"{_CAPACITY_NOTE} Includes the number of jobs.")
async def list_clusters_v1(call: Call) -> Response:
    capacity = await call.services.installation.get_capacity(call.actor)
    return respond_json({use.group: await _cluster_to_json_v1(call, use, capacity.nodes) for use in capacity.groups})


@endpoint("GET", "/v1/virtual-clusters/{vc}", note=f"{_CAPACITY_NOTE} Includes the number of jobs.")
async def get_cluster_v1(call: Call) -> Response:
    capacity = await call.services.installation.get_capacity(call.actor)
    return respond_json(
        await _cluster_to_json_v1(call, _get_cluster_usage(capacity.groups, call.get_path_text("vc")), capacity.nodes)
    )


_CLUSTER_PATHS = ("/v1/virtual-clusters/{vc}", "/v2/virtual-clusters/{vc}")
_STATUS_PATHS = tuple(f"{path}/status" for path in _CLUSTER_PATHS)


@endpoint(
    "PUT", *_CLUSTER_PATHS, *_STATUS_PATHS, who=AccessLevel.ADMIN, support=Support.UNSUPPORTED, note=_NOT_SUPPORTED_NOTE
)
@endpoint("DELETE", *_CLUSTER_PATHS, who=AccessLevel.ADMIN, support=Support.UNSUPPORTED, note=_NOT_SUPPORTED_NOTE)
async def reject_cluster_change(call: Call) -> Response:
    if call.get_path_text("vc") == DEFAULT_GROUP:
        raise PaiError(403, "ForbiddenUserError", f"Virtual cluster {DEFAULT_GROUP} cannot be changed.")
    raise PaiError(400, "NotImplementedError", _NOT_SUPPORTED_NOTE)


@endpoint(
    "GET",
    "/v2/cluster/sku-types",
    "/v2/virtual-clusters/{vc}/sku-types",
    note="Instance types; with a virtual cluster, those of its group.",
)
async def list_skus(call: Call) -> Response:
    vc = call.request.path_params.get("vc") or call.get_query_text("vc")
    if vc:
        _get_cluster_usage((await call.services.installation.get_capacity(call.actor)).groups, vc)
    types = [
        type for type in await call.services.instance_types.list(call.actor) if not vc or is_type_available(type, vc)
    ]
    return respond_json(
        {t.name: {"cpu": _to_plain_number(t.cpu), "memory": t.memory // MIB, "gpu": t.gpu} for t in types}
    )


def _get_cluster_usage(groups: tuple[GroupUsage, ...], name: str) -> GroupUsage:
    for use in groups:
        if use.group == name:
            return use
    raise PaiError(404, "NoVirtualClusterError", f"Virtual cluster {name[:100]} is not found.")


def _sum_capacity(nodes: tuple[NodeUsage, ...]) -> ResourceAmount:
    total = ResourceAmount()
    for use in nodes:
        total = total.plus(ResourceAmount(cpu=use.node.cpu, memory=use.node.memory, gpu=len(use.node.gpus)))
    return total


def _cluster_to_json(use: GroupUsage, total: ResourceAmount) -> dict[str, Any]:
    quota = use.quota
    guaranteed = ResourceAmount(
        cpu=total.cpu if quota.cpu is None else quota.cpu,
        memory=total.memory if quota.memory is None else quota.memory,
        gpu=total.gpu if quota.gpu is None else quota.gpu,
    )
    capacity = _compute_percent(guaranteed, total)
    return {
        "capacity": capacity,
        "usedCapacity": _compute_percent(use.used, total),
        "maxCapacity": capacity,
        "dedicated": False,
        "resourcesUsed": _amount_to_json(use.used),
        "resourcesGuaranteed": _amount_to_json(guaranteed),
        "resourcesTotal": _amount_to_json(_compute_minimum(guaranteed, total)),
    }


def _compute_minimum(a: ResourceAmount, b: ResourceAmount) -> ResourceAmount:
    return ResourceAmount(cpu=min(a.cpu, b.cpu), memory=min(a.memory, b.memory), gpu=min(a.gpu, b.gpu))


def _compute_percent(part: ResourceAmount, total: ResourceAmount) -> float:
    """Return the percentage of the GPUs, or of the cores if there are no GPUs."""
    one, all_of_it = (part.gpu, total.gpu) if total.gpu else (part.cpu, total.cpu)
    return min(100.0, round(100 * one / all_of_it, 2)) if all_of_it else 0.0


def _amount_to_json(amount: ResourceAmount) -> dict[str, float]:
    cpu = _to_plain_number(amount.cpu)
    return {"cpu": cpu, "memory": amount.memory // MIB, "gpu": amount.gpu, "vCores": cpu, "GPUs": amount.gpu}


def _to_plain_number(cores: float) -> float:
    """Return integers as clients expect them: 2, not 2.0."""
    return int(cores) if cores == int(cores) else round(cores, 3)


def _gpus_to_json(use: NodeUsage) -> dict[str, int]:
    total = len(use.node.gpus)
    return {"gpuUsed": total - use.free.gpu, "gpuAvailable": use.free.gpu, "gpuTotal": total}


async def _cluster_to_json_v1(call: Call, use: GroupUsage, nodes: tuple[NodeUsage, ...]) -> dict[str, Any]:
    running = await _count_jobs(call, use.group, JobPhase.RUNNING, JobPhase.STOPPING)
    waiting = await _count_jobs(call, use.group, JobPhase.WAITING)
    return {
        **_cluster_to_json(use, _sum_capacity(nodes)),
        "numActiveJobs": running,
        "numPendingJobs": waiting,
        "numJobs": running + waiting,
        "nodeList": [node.node.name for node in nodes],
        "status": "RUNNING",
    }


async def _count_jobs(call: Call, group: str, *phases: JobPhase) -> int:
    query = OffsetPageQuery(named_groups=(group,), phases=phases, limit=0)
    return (await call.services.jobs.get_numbered_page(call.actor, query, count=True)).total or 0
