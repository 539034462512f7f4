"""The machines as Kubernetes would list them, and what there is none of here: pods and alerts."""

from __future__ import annotations

from typing import Any

from starlette.responses import Response

from holdfast.core.scheduling.placement import NodeUse
from holdfast.server.answers import answer

from .call import Call
from .endpoints import Support, Who, endpoint


@endpoint(
    "GET",
    "/v1/kubernetes/nodes",
    "/v2/kubernetes/nodes",
    who=Who.ADMIN,
    note="Our machines, with what they have; there is no Kubernetes below.",
)
async def list_nodes(call: Call) -> Response:
    capacity = await call.services.place.capacity(call.actor)
    return answer(_list("NodeList", [_show_node(use) for use in capacity.nodes]))


@endpoint(
    "GET",
    "/v1/kubernetes/pods",
    "/v2/kubernetes/pods",
    who=Who.ADMIN,
    support=Support.EMPTY,
    note="Tasks run without pods.",
)
async def list_pods(call: Call) -> Response:
    return answer(_list("PodList", []))


@endpoint("GET", "/v1/alerts", "/v2/alerts", support=Support.EMPTY, note="Nothing raises alerts here.")
async def list_alerts(call: Call) -> Response:
    return answer([])


def _list(kind: str, items: list[dict[str, Any]]) -> dict[str, Any]:
    return {"kind": kind, "apiVersion": "v1", "metadata": {}, "items": items}


def _show_node(use: NodeUse) -> dict[str, Any]:
    node = use.node
    has = {"cpu": f"{round(node.cpu * 1000)}m", "memory": f"{node.memory // 1024}Ki"}
    if node.gpus:
        has["nvidia.com/gpu"] = str(len(node.gpus))
    return {
        "metadata": {"name": node.name, "labels": {"kubernetes.io/hostname": node.name}},
        "spec": {},
        "status": {
            "capacity": has,
            "allocatable": has,
            "addresses": [
                {"type": "InternalIP", "address": node.address},
                {"type": "Hostname", "address": node.name},
            ],
            "conditions": [{"type": "Ready", "status": "True"}],
        },
    }
