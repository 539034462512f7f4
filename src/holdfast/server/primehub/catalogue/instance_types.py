"""Instance types, for admins. Members see those of their groups through the group."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ariadne import MutationType, QueryType

from holdfast.core.catalogue import InstanceType
from holdfast.core.errors import NotFound
from holdfast.core.job import GIB
from holdfast.services.catalogue.instance_types import InstanceTypeChange

from ..errors import PrimeHubError, translate_conflict, translate_not_found
from ..graphql.call import Call, Info, get_call
from ..graphql.lists import bind_list_queries
from ..graphql.scalars import gigabytes_to_bytes
from ..json_object import JsonObject
from ..people.relations import (
    check_groups_exist,
    check_name_unchanged,
    parse_group_links,
    require_admin,
    update_granted_object,
)
from .instance_type_shapes import instance_type_to_json

query, mutation = QueryType(), MutationType()
BINDABLES = (query, mutation)


# -- queries


@query.field("instanceType")
async def get_type(_: Any, info: Info, where: JsonObject) -> JsonObject | None:
    call = get_call(info)
    require_admin(call)
    try:
        return instance_type_to_json(await call.services.instance_types.get(call.actor, where["id"]))
    except NotFound:
        return None


async def _list_type_nodes(call: Call, args: JsonObject) -> list[JsonObject]:
    require_admin(call)
    return [instance_type_to_json(each) for each in await call.services.instance_types.list(call.actor)]


bind_list_queries(query, "instanceTypes", _list_type_nodes, "name", "displayName", "description")


# -- mutations


@mutation.field("createInstanceType")
async def create_type(_: Any, info: Info, data: JsonObject) -> JsonObject:
    call = get_call(info)
    require_admin(call)
    links, size = parse_group_links(data), {"cpu": 1.0, "memory": GIB, **parse_type_fields(data)}
    type = InstanceType(name=data["name"], **size, everyone=bool(links.everyone), groups=tuple(links.connect))
    with translate_conflict():
        return instance_type_to_json(await call.services.instance_types.create(call.actor, type))


@mutation.field("updateInstanceType")
async def update_type(_: Any, info: Info, data: JsonObject, where: JsonObject) -> JsonObject:
    call, name = get_call(info), where["id"]
    before = await _load_type(call, name)
    check_name_unchanged(data, "name", name)
    links, given = parse_group_links(data), parse_type_fields(data)
    await check_groups_exist(call, list(links.connect))
    await update_granted_object(call, call.services.instance_types, before, InstanceTypeChange, given, links)
    return instance_type_to_json(await _load_type(call, name))


@mutation.field("deleteInstanceType")
async def delete_type(_: Any, info: Info, where: JsonObject) -> JsonObject:
    call = get_call(info)
    found = await _load_type(call, where["id"])
    await call.services.instance_types.delete(call.actor, found.name)
    return instance_type_to_json(found)


async def _load_type(call: Call, name: str) -> InstanceType:
    require_admin(call)
    with translate_not_found("instancetypes", name):
        return await call.services.instance_types.get(call.actor, name)


# -- input


def parse_type_fields(data: JsonObject) -> JsonObject:
    """Return the given fields, with our names. Null removes a request, and changes nothing else."""
    found = {name: read(data[key]) for key, (name, read) in _TYPE_FIELD_PARSERS.items() if data.get(key) is not None}
    for key, name in (("cpuRequest", "cpu_request"), ("memoryRequest", "memory_request")):
        if key in data and data[key] is None:
            found[name] = None
    return found


def _parse_tolerations(given: JsonObject) -> tuple[JsonObject, ...]:
    """Return tolerations; the default operator is Equal, as in Kubernetes."""
    return tuple({"operator": "Equal", **_drop_null_values(each)} for each in given.get("set") or ())


def _drop_null_values(toleration: JsonObject) -> JsonObject:
    return {key: value for key, value in toleration.items() if value is not None}


def _parse_node_selector(given: Any) -> JsonObject:
    if not isinstance(given, dict):
        raise PrimeHubError('nodeSelector must be an object of labels and values, such as {"gpu": "v100"}')
    return given


_TYPE_FIELD_PARSERS: dict[str, tuple[str, Callable[[Any], Any]]] = {
    "displayName": ("display_name", str),
    "description": ("description", str),
    "cpuLimit": ("cpu", float),
    "memoryLimit": ("memory", gigabytes_to_bytes),
    "gpuLimit": ("gpu", int),
    "gpuResourceName": ("gpu_resource", str),
    "cpuRequest": ("cpu_request", float),
    "memoryRequest": ("memory_request", gigabytes_to_bytes),
    "tolerations": ("tolerations", _parse_tolerations),
    "nodeSelector": ("node_selector", _parse_node_selector),
}
