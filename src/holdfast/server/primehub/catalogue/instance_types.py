"""Instance types, for admins. Members see those of their groups through the group."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ariadne import MutationType, QueryType

from holdfast.core.catalogue import InstanceType
from holdfast.core.errors import NotFound
from holdfast.core.job import GIB
from holdfast.services.catalogue.instance_types import InstanceTypeChange

from ..errors import PhError, translate_conflict, translate_missing
from ..graphql.call import Call, Info, get_call
from ..graphql.lists import bind_lists
from ..graphql.scalars import gigabytes_to_bytes
from ..people.relations import apply_change, check_groups, check_name_unchanged, parse_links, require_admin
from .instance_type_shapes import type_to_json

Shape = dict[str, Any]

query, mutation = QueryType(), MutationType()
BINDABLES = (query, mutation)


# -- queries


@query.field("instanceType")
async def get_type(_: Any, info: Info, where: Shape) -> Shape | None:
    call = get_call(info)
    require_admin(call)
    try:
        return type_to_json(await call.services.instance_types.get(call.actor, where["id"]))
    except NotFound:
        return None


async def _list_type_shapes(call: Call, args: Shape) -> list[Shape]:
    require_admin(call)
    return [type_to_json(each) for each in await call.services.instance_types.list(call.actor)]


bind_lists(query, "instanceTypes", _list_type_shapes, "name", "displayName", "description")


# -- mutations


@mutation.field("createInstanceType")
async def create_type(_: Any, info: Info, data: Shape) -> Shape:
    call = get_call(info)
    require_admin(call)
    links, size = parse_links(data), {"cpu": 1.0, "memory": GIB, **parse_type_fields(data)}
    type = InstanceType(name=data["name"], **size, everyone=bool(links.everyone), groups=tuple(links.connect))
    with translate_conflict():
        return type_to_json(await call.services.instance_types.create(call.actor, type))


@mutation.field("updateInstanceType")
async def update_type(_: Any, info: Info, data: Shape, where: Shape) -> Shape:
    call, name = get_call(info), where["id"]
    before = await _find_type(call, name)
    check_name_unchanged(data, "name", name)
    links, given = parse_links(data), parse_type_fields(data)
    await check_groups(call, list(links.connect))
    await apply_change(call, call.services.instance_types, before, InstanceTypeChange, given, links)
    return type_to_json(await _find_type(call, name))


@mutation.field("deleteInstanceType")
async def delete_type(_: Any, info: Info, where: Shape) -> Shape:
    call = get_call(info)
    found = await _find_type(call, where["id"])
    await call.services.instance_types.delete(call.actor, found.name)
    return type_to_json(found)


async def _find_type(call: Call, name: str) -> InstanceType:
    require_admin(call)
    with translate_missing("instancetypes", name):
        return await call.services.instance_types.get(call.actor, name)


# -- input


def parse_type_fields(data: Shape) -> Shape:
    """Return the given fields, with our names. Null removes a request, and changes nothing else."""
    found = {name: read(data[key]) for key, (name, read) in _FIELDS.items() if data.get(key) is not None}
    for key, name in (("cpuRequest", "cpu_request"), ("memoryRequest", "memory_request")):
        if key in data and data[key] is None:
            found[name] = None
    return found


def _parse_tolerations(given: Shape) -> tuple[Shape, ...]:
    """Return tolerations; the default operator is Equal, as in Kubernetes."""
    return tuple({"operator": "Equal", **_toleration_to_json(each)} for each in given.get("set") or ())


def _toleration_to_json(toleration: Shape) -> Shape:
    return {key: value for key, value in toleration.items() if value is not None}


def _parse_labels(given: Any) -> Shape:
    if not isinstance(given, dict):
        raise PhError('nodeSelector must be an object of labels and values, such as {"gpu": "v100"}')
    return given


_FIELDS: dict[str, tuple[str, Callable[[Any], Any]]] = {
    "displayName": ("display_name", str),
    "description": ("description", str),
    "cpuLimit": ("cpu", float),
    "memoryLimit": ("memory", gigabytes_to_bytes),
    "gpuLimit": ("gpu", int),
    "gpuResourceName": ("gpu_resource", str),
    "cpuRequest": ("cpu_request", float),
    "memoryRequest": ("memory_request", gigabytes_to_bytes),
    "tolerations": ("tolerations", _parse_tolerations),
    "nodeSelector": ("node_selector", _parse_labels),
}
