"""The nodes in Kubernetes' list format, and empty lists of pods and alerts, which do not exist."""

from __future__ import annotations

from typing import Any

from starlette.responses import Response

from holdfast.core.scheduling.placement import NodeUsage
from holdfast.server.responses import respond_json

from .call import Call
from .endpoints import AccessLevel, Support, endpoint


@endpoint(
    "GET",
    "/v1/kubernetes/nodes",
    "/v2/kubernetes/nodes",
    who=AccessLevel.ADMIN,
    note="The nodes and their capacity; Holdfast does not use Kubernetes.",
)
async def list_nodes(call: Call) -> Response:
    capacity = await call.services.installation.get_capacity(call.actor)
    return respond_json(_build_kubernetes_list("NodeList", [_node_to_json(use) for use in capacity.nodes]))


@endpoint(
    "GET",
    "/v1/kubernetes/pods",
    "/v2/kubernetes/pods",
    who=AccessLevel.ADMIN,
    support=Support.EMPTY,
    note="Tasks do not run in pods.",
)
async def list_pods(call: Call) -> Response:
    return respond_json(_build_kubernetes_list("PodList", []))


@endpoint("GET", "/v1/alerts", "/v2/alerts", support=Support.EMPTY, note="Holdfast has no alerts.")
async def list_alerts(call: Call) -> Response:
    return respond_json([])


def _build_kubernetes_list(kind: str, items: list[dict[str, Any]]) -> dict[str, Any]:
    return {"kind": kind, "apiVersion": "v1", "metadata": {}, "items": items}


def _node_to_json(use: NodeUsage) -> dict[str, Any]:
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
            "addresses": [{"type": "InternalIP", "address": node.address}, {"type": "Hostname", "address": node.name}],
            "conditions": [{"type": "Ready", "status": "True"}],
        },
    }
