"""Virtual clusters: our groups, with what they use and may use. A quota is what a cluster is guaranteed."""

from __future__ import annotations

from typing import Any

from starlette.responses import Response

from holdfast.core.job import DEFAULT_GROUP, MIB
from holdfast.core.records import NumberedQuery, Phase
from holdfast.core.scheduling.placement import Amount, GroupUse, NodeUse
from holdfast.server.answers import answer
from holdfast.services.catalogue.instance_types import is_for

from ..call import Call
from ..endpoints import Support, Who, endpoint
from ..errors import PaiError

_PERCENT = "Capacities are percents of the GPUs, or of the cores where there is no GPU."
_FIXED = "Make and remove groups in its place, below /api/v2/groups; `holdfast group` sets their quotas."


@endpoint("GET", "/v2/virtual-clusters", note=f"{_PERCENT} With `?nodes`: the GPUs of each machine.")
async def list_clusters(call: Call) -> Response:
    capacity = await call.services.place.capacity(call.actor)
    if "nodes" in call.request.query_params:
        return answer({use.node.name: _show_gpus(use) for use in capacity.nodes})
    total = _total(capacity.nodes)
    return answer({use.group: _show(use, total) for use in capacity.groups})


@endpoint("GET", "/v2/virtual-clusters/{vc}", note=_PERCENT)
async def get_cluster(call: Call) -> Response:
    capacity = await call.services.place.capacity(call.actor)
    return answer(_show(_need(capacity.groups, call.path("vc")), _total(capacity.nodes)))


@endpoint("GET", "/v1/virtual-clusters", note=f"{_PERCENT} Also how many jobs there are.")
async def list_clusters_v1(call: Call) -> Response:
    capacity = await call.services.place.capacity(call.actor)
    return answer({use.group: await _show_v1(call, use, capacity.nodes) for use in capacity.groups})


@endpoint("GET", "/v1/virtual-clusters/{vc}", note=f"{_PERCENT} Also how many jobs there are.")
async def get_cluster_v1(call: Call) -> Response:
    capacity = await call.services.place.capacity(call.actor)
    return answer(await _show_v1(call, _need(capacity.groups, call.path("vc")), capacity.nodes))


_ONE = ("/v1/virtual-clusters/{vc}", "/v2/virtual-clusters/{vc}")
_STATUS = tuple(f"{path}/status" for path in _ONE)


@endpoint("PUT", *_ONE, *_STATUS, who=Who.ADMIN, support=Support.ABSENT, note=_FIXED)
@endpoint("DELETE", *_ONE, who=Who.ADMIN, support=Support.ABSENT, note=_FIXED)
async def change_cluster(call: Call) -> Response:
    if call.path("vc") == DEFAULT_GROUP:
        raise PaiError(403, "ForbiddenUserError", f"The virtual cluster {DEFAULT_GROUP} stays as it is.")
    raise PaiError(400, "NotImplementedError", _FIXED)


@endpoint(
    "GET",
    "/v2/cluster/sku-types",
    "/v2/virtual-clusters/{vc}/sku-types",
    note="Instance types; with a virtual cluster, those that are for its group.",
)
async def list_skus(call: Call) -> Response:
    vc = call.request.path_params.get("vc") or call.query("vc")
    if vc:
        _need((await call.services.place.capacity(call.actor)).groups, vc)
    types = [type for type in await call.services.instance_types.list(call.actor) if not vc or is_for(type, vc)]
    return answer({t.name: {"cpu": _plain(t.cpu), "memory": t.memory // MIB, "gpu": t.gpu} for t in types})


def _need(groups: tuple[GroupUse, ...], name: str) -> GroupUse:
    for use in groups:
        if use.group == name:
            return use
    raise PaiError(404, "NoVirtualClusterError", f"Virtual cluster {name[:100]} is not found.")


def _total(nodes: tuple[NodeUse, ...]) -> Amount:
    total = Amount()
    for use in nodes:
        total = total.plus(Amount(cpu=use.node.cpu, memory=use.node.memory, gpu=len(use.node.gpus)))
    return total


def _show(use: GroupUse, total: Amount) -> dict[str, Any]:
    quota = use.quota
    guaranteed = Amount(
        cpu=total.cpu if quota.cpu is None else quota.cpu,
        memory=total.memory if quota.memory is None else quota.memory,
        gpu=total.gpu if quota.gpu is None else quota.gpu,
    )
    capacity = _percent(guaranteed, total)
    return {
        "capacity": capacity,
        "usedCapacity": _percent(use.used, total),
        "maxCapacity": capacity,
        "dedicated": False,
        "resourcesUsed": _show_amount(use.used),
        "resourcesGuaranteed": _show_amount(guaranteed),
        "resourcesTotal": _show_amount(_least(guaranteed, total)),
    }


def _least(a: Amount, b: Amount) -> Amount:
    return Amount(cpu=min(a.cpu, b.cpu), memory=min(a.memory, b.memory), gpu=min(a.gpu, b.gpu))


def _percent(part: Amount, total: Amount) -> float:
    """Of the GPUs; of the cores where there are none."""
    one, all_of_it = (part.gpu, total.gpu) if total.gpu else (part.cpu, total.cpu)
    return min(100.0, round(100 * one / all_of_it, 2)) if all_of_it else 0.0


def _show_amount(amount: Amount) -> dict[str, float]:
    cpu = _plain(amount.cpu)
    return {"cpu": cpu, "memory": amount.memory // MIB, "gpu": amount.gpu, "vCores": cpu, "GPUs": amount.gpu}


def _plain(cores: float) -> float:
    """Whole numbers as clients know them: 2, not 2.0."""
    return int(cores) if cores == int(cores) else round(cores, 3)


def _show_gpus(use: NodeUse) -> dict[str, int]:
    total = len(use.node.gpus)
    return {"gpuUsed": total - use.free.gpu, "gpuAvailable": use.free.gpu, "gpuTotal": total}


async def _show_v1(call: Call, use: GroupUse, nodes: tuple[NodeUse, ...]) -> dict[str, Any]:
    running = await _count(call, use.group, Phase.RUNNING, Phase.STOPPING)
    waiting = await _count(call, use.group, Phase.WAITING)
    return {
        **_show(use, _total(nodes)),
        "numActiveJobs": running,
        "numPendingJobs": waiting,
        "numJobs": running + waiting,
        "nodeList": [node.node.name for node in nodes],
        "status": "RUNNING",
    }


async def _count(call: Call, group: str, *phases: Phase) -> int:
    query = NumberedQuery(named_groups=(group,), phases=phases, limit=0)
    return (await call.services.jobs.numbered(call.actor, query, count=True)).total or 0
