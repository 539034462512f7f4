"""/instance-types and the groups they are granted to."""

from __future__ import annotations

from starlette.responses import Response

from holdfast.api import catalogue as api
from holdfast.api.pages import ItemList
from holdfast.core.catalogue import InstanceType
from holdfast.services.catalogue.instance_types import InstanceTypeChange

from ..auth import Caller, ServicesDep
from ..responses import respond_empty
from .routing import build_router
from .schemas import Body, get_sent_fields
from .views import respond_items, respond_record

router = build_router("instance types")


@router.get("/instance-types", response_model=ItemList[api.InstanceType])
async def list_instance_types(actor: Caller, services: ServicesDep, group: str | None = None) -> Response:
    """List all types for admins; public ones and those of your groups for users. With `group`: those for its jobs."""
    types = services.instance_types
    found = await (types.list(actor) if group is None else types.list_usable_types(actor, group))
    return respond_items(api.InstanceType, found)


@router.post("/instance-types", response_model=api.InstanceType, status_code=201)
async def add_instance_type(body: Body[api.NewInstanceType], actor: Caller, services: ServicesDep) -> Response:
    """Admins only."""
    given = get_sent_fields(body)
    given.setdefault("everyone", not given.get("groups"))
    return respond_record(api.InstanceType, await services.instance_types.create(actor, InstanceType(**given)), 201)


@router.get("/instance-types/{name}", response_model=api.InstanceType)
async def show_instance_type(name: str, actor: Caller, services: ServicesDep) -> Response:
    return respond_record(api.InstanceType, await services.instance_types.get(actor, name))


@router.patch("/instance-types/{name}", response_model=api.InstanceType)
async def change_instance_type(
    name: str, body: Body[api.InstanceTypeChange], actor: Caller, services: ServicesDep
) -> Response:
    """Admins only. Changes the given fields; jobs that are already submitted do not change."""
    change = InstanceTypeChange(**get_sent_fields(body, "cpu_request", "memory_request"))
    return respond_record(api.InstanceType, await services.instance_types.change(actor, name, change))


@router.delete("/instance-types/{name}", status_code=204)
async def remove_instance_type(name: str, actor: Caller, services: ServicesDep) -> Response:
    """Admins only. Jobs that are already submitted do not change."""
    await services.instance_types.delete(actor, name)
    return respond_empty()


@router.put("/instance-types/{name}/groups/{group}", response_model=api.InstanceType)
async def grant_instance_type(name: str, group: str, actor: Caller, services: ServicesDep) -> Response:
    """Admins only."""
    return respond_record(api.InstanceType, await services.instance_types.grant(actor, name, group))


@router.delete("/instance-types/{name}/groups/{group}", status_code=204)
async def revoke_instance_type(name: str, group: str, actor: Caller, services: ServicesDep) -> Response:
    """Admins only."""
    await services.instance_types.revoke(actor, name, group)
    return respond_empty()
