"""/instance-types and the groups they are for."""

from __future__ import annotations

from typing import Any

from starlette.responses import Response

from holdfast.api import catalogue as api
from holdfast.api.pages import Items
from holdfast.core.catalogue import InstanceType
from holdfast.services.catalogue.instance_types import InstanceTypeChange

from ..answers import answer, answer_nothing
from ..auth import Ask, Caller
from .addresses import rest_router
from .schemas import Body, get_sent_fields

router = rest_router("instance types")


@router.get("/instance-types", response_model=Items[api.InstanceType])
async def list_instance_types(actor: Caller, services: Ask, group: str | None = None) -> Response:
    """All, for admins; everyone's and those of one's groups, for others. With `group`: what its jobs can name."""
    types = services.instance_types
    found = await (types.list(actor) if group is None else types.usable(actor, group))
    return answer({"items": [show(type) for type in found]})


@router.post("/instance-types", response_model=api.InstanceType, status_code=201)
async def add_instance_type(body: Body[api.NewInstanceType], actor: Caller, services: Ask) -> Response:
    """Admins only."""
    given = get_sent_fields(body)
    given.setdefault("everyone", not given.get("groups"))
    return answer(show(await services.instance_types.create(actor, InstanceType(**given))), 201)


@router.get("/instance-types/{name}", response_model=api.InstanceType)
async def show_instance_type(name: str, actor: Caller, services: Ask) -> Response:
    return answer(show(await services.instance_types.get(actor, name)))


@router.patch("/instance-types/{name}", response_model=api.InstanceType)
async def change_instance_type(name: str, body: Body[api.InstanceTypeChange], actor: Caller, services: Ask) -> Response:
    """Admins only. What is given; jobs that were submitted before keep the size they had."""
    change = InstanceTypeChange(**get_sent_fields(body, "cpu_request", "memory_request"))
    return answer(show(await services.instance_types.change(actor, name, change)))


@router.delete("/instance-types/{name}", status_code=204)
async def remove_instance_type(name: str, actor: Caller, services: Ask) -> Response:
    """Admins only. Jobs that were submitted before keep the size they had."""
    await services.instance_types.delete(actor, name)
    return answer_nothing()


@router.put("/instance-types/{name}/groups/{group}", response_model=api.InstanceType)
async def grant_instance_type(name: str, group: str, actor: Caller, services: Ask) -> Response:
    """Admins only."""
    return answer(show(await services.instance_types.grant(actor, name, group)))


@router.delete("/instance-types/{name}/groups/{group}", status_code=204)
async def revoke_instance_type(name: str, group: str, actor: Caller, services: Ask) -> Response:
    """Admins only."""
    await services.instance_types.revoke(actor, name, group)
    return answer_nothing()


def show(type: InstanceType) -> dict[str, Any]:
    return {
        "name": type.name,
        "display_name": type.display_name,
        "description": type.description,
        "cpu": type.cpu,
        "memory": type.memory,
        "gpu": type.gpu,
        "cpu_request": type.cpu_request,
        "memory_request": type.memory_request,
        "gpu_resource": type.gpu_resource,
        "tolerations": [dict(each) for each in type.tolerations],
        "node_selector": dict(type.node_selector),
        "everyone": type.everyone,
        "groups": list(type.groups),
    }
