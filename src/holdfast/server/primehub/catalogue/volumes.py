"""Volumes (Holdfast's datasets), for admins. Members see those of their groups through the group."""

from __future__ import annotations

from typing import Any

from ariadne import MutationType, ObjectType, QueryType

from holdfast.core.access import Permission, has_permission
from holdfast.core.records import Dataset
from holdfast.services.datasets import kinds
from holdfast.services.datasets.service import DatasetChange

from ..errors import build_conflict_error, translate_not_found
from ..graphql.call import Call, Info, get_call
from ..graphql.lists import bind_list_queries
from ..json_object import JsonObject
from ..people.relations import (
    GroupLinkChanges,
    check_groups_exist,
    check_name_unchanged,
    parse_group_links,
    require_admin,
    revoke_group_links,
)
from .shapes import volume_to_json
from .volume_forms import build_no_upload_server_error, parse_variables, parse_volume, parse_volume_change

query, mutation, volume_type = QueryType(), MutationType(), ObjectType("Dataset")
BINDABLES = (query, mutation, volume_type)


# -- queries


@query.field("dataset")
async def get_volume(_: Any, info: Info, where: JsonObject) -> JsonObject:
    """Return a volume. Clients read its fields without a null check, so a missing one is an error."""
    return volume_to_json(await _load_volume(get_call(info), where["id"]))


async def _list_volume_nodes(call: Call, args: JsonObject) -> list[JsonObject]:
    require_admin(call)
    return [volume_to_json(each) for each in await call.services.datasets.list(call.actor)]


bind_list_queries(query, "datasets", _list_volume_nodes, "name", "displayName", "description")


@volume_type.field("variables")
async def show_variables(volume: JsonObject, info: Info) -> dict[str, str] | None:
    """Return the variables with their values, for admins only."""
    call, name = get_call(info), volume["id"]
    if volume["_volume"].kind != kinds.ENV or not has_permission(call.actor, Permission.MANAGE_INSTALLATION):
        return None
    return await call.load_once(("variables", name), lambda: call.services.datasets.get_variables(call.actor, name))


# -- mutations


@mutation.field("createDataset")
async def create_volume(_: Any, info: Info, data: JsonObject) -> JsonObject:
    call, datasets = get_call(info), get_call(info).services.datasets
    require_admin(call)
    links = parse_group_links(data)
    await check_groups_exist(call, list(links.connect))
    volume, variables = parse_volume(data, links), parse_variables(data)
    if await datasets.exists(volume.name):
        raise build_conflict_error()
    return volume_to_json(await datasets.create(call.actor, volume, variables=variables))


@mutation.field("updateDataset")
async def update_volume(_: Any, info: Info, data: JsonObject, where: JsonObject) -> JsonObject:
    call, name = get_call(info), where["id"]
    before = await _load_volume(call, name)
    check_name_unchanged(data, "name", name)
    links = parse_group_links(data)
    await check_groups_exist(call, list(links.connect))
    change = parse_volume_change(before, data, links, nfs_folder=call.services.settings.mounts.nfs_folder)
    if change != DatasetChange():
        await call.services.datasets.change(call.actor, name, change)
    await _update_links(call, before, links)
    return volume_to_json(await _load_volume(call, name))


async def _update_links(call: Call, volume: Dataset, links: GroupLinkChanges) -> None:
    """Update the linked groups. Write permission does not change unless given; for new groups it is off."""
    datasets, fixed = call.services.datasets, volume.kind in (kinds.GIT, kinds.ENV)
    for group, requested in links.connect.items():
        before = group in volume.writable_groups
        writable = not fixed and (before if requested is None else requested)
        if group not in volume.groups or writable != before:
            await datasets.grant(call.actor, volume.name, group, writable)
    await revoke_group_links(call, datasets, volume, links)


@mutation.field("deleteDataset")
async def delete_volume(_: Any, info: Info, where: JsonObject) -> JsonObject:
    """Delete a volume; its data stays on disk."""
    call = get_call(info)
    found = await _load_volume(call, where["id"])
    await call.services.datasets.delete(call.actor, found.name)
    return volume_to_json(found)


@mutation.field("regenerateUploadServerSecret")
async def refuse_upload_server(_: Any, info: Info, where: JsonObject) -> None:
    await _load_volume(get_call(info), where["id"])
    raise build_no_upload_server_error()


async def _load_volume(call: Call, name: str) -> Dataset:
    require_admin(call)
    with translate_not_found("datasets", name):
        return await call.services.datasets.get(call.actor, name)
