"""Volumes (datasets of Holdfast), for admins. Members see those of their groups with these."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

from ariadne import MutationType, ObjectType, QueryType

from holdfast.core.access import Verb, may
from holdfast.core.errors import NotFound
from holdfast.core.records import Dataset
from holdfast.services.datasets import kinds
from holdfast.services.datasets.service import DatasetChange

from ..errors import not_found, resource_exists
from ..graphql.call import Call, Info, call_of
from ..graphql.lists import show_all, show_page
from ..people.relations import Links, check_groups, keep_name, need_admin, read_links
from .shapes import show_volume
from .volume_forms import no_upload_server, read_change, read_variables, read_volume

Shape = dict[str, Any]

query, mutation, volume_type = QueryType(), MutationType(), ObjectType("Dataset")
BINDABLES = (query, mutation, volume_type)

SEARCHED = ("name", "displayName", "description")


# -- looking


@query.field("dataset")
async def get_volume(_: Any, info: Info, where: Shape) -> Shape:
    """Clients look into it without asking whether it is there, so it is an error when it is not."""
    return show_volume(await _need(call_of(info), where["id"]))


@query.field("datasets")
async def list_volumes(_: Any, info: Info, where: Shape | None = None, orderBy: Shape | None = None) -> Any:
    call = call_of(info)
    return show_all(call, await _all(call), where, orderBy, *SEARCHED)


@query.field("datasetsConnection")
async def page_volumes(
    _: Any, info: Info, where: Shape | None = None, orderBy: Shape | None = None, **paging: Any
) -> Shape:
    call = call_of(info)
    return show_page(call, await _all(call), where, orderBy, paging, *SEARCHED)


async def _all(call: Call) -> list[Shape]:
    need_admin(call)
    return [show_volume(each) for each in await call.services.datasets.list(call.actor)]


@volume_type.field("variables")
async def show_variables(volume: Shape, info: Info) -> dict[str, str] | None:
    """With their values, for admins alone."""
    call, name = call_of(info), volume["id"]
    if volume["_volume"].kind != kinds.ENV or not may(call.actor, Verb.MANAGE_PLACE):
        return None
    return await call.once(("variables", name), lambda: call.services.datasets.variables(call.actor, name))


# -- changing


@mutation.field("createDataset")
async def create_volume(_: Any, info: Info, data: Shape) -> Shape:
    call, datasets = call_of(info), call_of(info).services.datasets
    need_admin(call)
    links = read_links(data)
    await check_groups(call, list(links.connect))
    made, variables = read_volume(data, links), read_variables(data)
    if await datasets.exists(made.name):
        raise resource_exists()
    return show_volume(await datasets.create(call.actor, made, variables=variables))


@mutation.field("updateDataset")
async def update_volume(_: Any, info: Info, data: Shape, where: Shape) -> Shape:
    call, name = call_of(info), where["id"]
    before = await _need(call, name)
    keep_name(data, "name", name)
    links = read_links(data)
    await check_groups(call, list(links.connect))
    change = read_change(before, data, links, nfs_folder=call.services.settings.mounts.nfs_folder)
    if change != DatasetChange():
        await call.services.datasets.change(call.actor, name, change)
    await _relink(call, before, links)
    return show_volume(await _need(call, name))


async def _relink(call: Call, volume: Dataset, links: Links) -> None:
    """Where nothing is said of writing, it stays as it was, and begins with no."""
    datasets, fixed = call.services.datasets, volume.kind in (kinds.GIT, kinds.ENV)
    for group, asked in links.connect.items():
        could = group in volume.writable_groups
        writable = not fixed and (could if asked is None else asked)
        if group not in volume.groups or writable != could:
            await datasets.grant(call.actor, volume.name, group, writable)
    for group in sorted(links.disconnect & set(volume.groups)):
        with suppress(NotFound):  # somebody was faster
            await datasets.revoke(call.actor, volume.name, group)


@mutation.field("deleteDataset")
async def delete_volume(_: Any, info: Info, where: Shape) -> Shape:
    """What is in it stays on disk."""
    call = call_of(info)
    found = await _need(call, where["id"])
    await call.services.datasets.delete(call.actor, found.name)
    return show_volume(found)


@mutation.field("regenerateUploadServerSecret")
async def refuse_upload_server(_: Any, info: Info, where: Shape) -> None:
    await _need(call_of(info), where["id"])
    raise no_upload_server()


async def _need(call: Call, name: str) -> Dataset:
    need_admin(call)
    try:
        return await call.services.datasets.get(call.actor, name)
    except NotFound:
        raise not_found("datasets", name) from None
