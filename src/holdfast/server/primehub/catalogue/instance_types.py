"""Instance types, for admins. Members see those of their groups with these."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ariadne import MutationType, QueryType

from holdfast.core.catalogue import InstanceType
from holdfast.core.errors import Conflict, NotFound
from holdfast.core.job import GIB
from holdfast.services.catalogue.instance_types import InstanceTypeChange

from ..errors import PhError, not_found, resource_exists
from ..graphql.call import Call, Info, call_of
from ..graphql.lists import show_all, show_page
from ..graphql.scalars import size_in_bytes
from ..people.relations import check_groups, keep_name, need_admin, read_links, relink
from .sizes import show_type

Shape = dict[str, Any]

query, mutation = QueryType(), MutationType()
BINDABLES = (query, mutation)

SEARCHED = ("name", "displayName", "description")


# -- looking


@query.field("instanceType")
async def get_type(_: Any, info: Info, where: Shape) -> Shape | None:
    call = call_of(info)
    need_admin(call)
    try:
        return show_type(await call.services.instance_types.get(call.actor, where["id"]))
    except NotFound:
        return None


@query.field("instanceTypes")
async def list_types(_: Any, info: Info, where: Shape | None = None, orderBy: Shape | None = None) -> Any:
    call = call_of(info)
    return show_all(call, await _all(call), where, orderBy, *SEARCHED)


@query.field("instanceTypesConnection")
async def page_types(
    _: Any, info: Info, where: Shape | None = None, orderBy: Shape | None = None, **paging: Any
) -> Shape:
    call = call_of(info)
    return show_page(call, await _all(call), where, orderBy, paging, *SEARCHED)


async def _all(call: Call) -> list[Shape]:
    need_admin(call)
    return [show_type(each) for each in await call.services.instance_types.list(call.actor)]


# -- changing


@mutation.field("createInstanceType")
async def create_type(_: Any, info: Info, data: Shape) -> Shape:
    call = call_of(info)
    need_admin(call)
    links, size = read_links(data), {"cpu": 1.0, "memory": GIB, **read_fields(data)}
    made = InstanceType(name=data["name"], **size, everyone=bool(links.everyone), groups=tuple(links.connect))
    try:
        return show_type(await call.services.instance_types.create(call.actor, made))
    except Conflict:
        raise resource_exists() from None


@mutation.field("updateInstanceType")
async def update_type(_: Any, info: Info, data: Shape, where: Shape) -> Shape:
    call, types, name = call_of(info), call_of(info).services.instance_types, where["id"]
    before = await _need(call, name)
    keep_name(data, "name", name)
    links, given = read_links(data), read_fields(data)
    await check_groups(call, list(links.connect))
    if links.everyone is not None and links.everyone != before.everyone:
        given["everyone"] = links.everyone
    if given:
        await types.change(call.actor, name, InstanceTypeChange(**given))
    await relink(call, types, name, before.groups, links)
    return show_type(await _need(call, name))


@mutation.field("deleteInstanceType")
async def delete_type(_: Any, info: Info, where: Shape) -> Shape:
    call = call_of(info)
    found = await _need(call, where["id"])
    await call.services.instance_types.delete(call.actor, found.name)
    return show_type(found)


async def _need(call: Call, name: str) -> InstanceType:
    need_admin(call)
    try:
        return await call.services.instance_types.get(call.actor, name)
    except NotFound:
        raise not_found("instancetypes", name) from None


# -- reading what was sent


def read_fields(data: Shape) -> Shape:
    """What is given, under our names. Null takes a request back, and leaves the rest as it was."""
    found = {name: read(data[key]) for key, (name, read) in _FIELDS.items() if data.get(key) is not None}
    for key, name in (("cpuRequest", "cpu_request"), ("memoryRequest", "memory_request")):
        if key in data and data[key] is None:
            found[name] = None
    return found


def _tolerations(given: Shape) -> tuple[Shape, ...]:
    """Equal unless they say otherwise, as in Kubernetes."""
    return tuple({"operator": "Equal", **_told(each)} for each in given.get("set") or ())


def _told(toleration: Shape) -> Shape:
    return {key: value for key, value in toleration.items() if value is not None}


def _labels(given: Any) -> Shape:
    if not isinstance(given, dict):
        raise PhError('nodeSelector is made of labels and their values, such as {"gpu": "v100"}')
    return given


_FIELDS: dict[str, tuple[str, Callable[[Any], Any]]] = {
    "displayName": ("display_name", str),
    "description": ("description", str),
    "cpuLimit": ("cpu", float),
    "memoryLimit": ("memory", size_in_bytes),
    "gpuLimit": ("gpu", int),
    "gpuResourceName": ("gpu_resource", str),
    "cpuRequest": ("cpu_request", float),
    "memoryRequest": ("memory_request", size_in_bytes),
    "tolerations": ("tolerations", _tolerations),
    "nodeSelector": ("node_selector", _labels),
}
