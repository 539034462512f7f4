"""PrimeHub's datasets of its later versions: folders of shared files with tags."""

from __future__ import annotations

from typing import Any

from ariadne import MutationType, QueryType

from holdfast.core.errors import Conflict, NotFound
from holdfast.services.files.tagged_folders import TaggedFolder

from .errors import NOT_FOUND, PhError, resource_exists
from .files import group_named
from .graphql.call import Info, call_of
from .graphql.paging import ROWS, asks_cursor, numbered, page_number
from .graphql.scalars import exact_instant

Shape = dict[str, Any]

query, mutation = QueryType(), MutationType()
BINDABLES = (query, mutation)


@query.field("datasetV2")
async def get_folder(_: Any, info: Info, where: Shape) -> Shape:
    call = call_of(info)
    group = await group_named(call, where["groupName"])
    try:
        return show_folder(await call.services.folders.get(call.actor, group, where["id"]))
    except NotFound:
        raise missing(where["id"]) from None


@query.field("datasetV2Connection")
async def list_folders(_: Any, info: Info, where: Shape | None = None, **args: Any) -> Shape:
    call, wanted = call_of(info), where or {}
    if not wanted.get("groupName"):
        raise PhError("where.groupName says whose datasets to list")
    if asks_cursor(args):
        raise PhError("Datasets are listed by page")
    group, page = await group_named(call, wanted["groupName"]), page_number(args.get("page"))
    found = await call.services.folders.list(call.actor, group, search=wanted.get("search"), page=page, page_size=ROWS)
    call.spend(len(found.items))
    return numbered([show_folder(each) for each in found.items], page=page, total=found.total)


@mutation.field("createDatasetV2")
async def create_folder(_: Any, info: Info, data: Shape) -> Shape:
    call = call_of(info)
    group = await group_named(call, data["groupName"])
    try:
        return show_folder(await call.services.folders.create(call.actor, group, data["id"], data.get("tags") or ()))
    except Conflict as error:
        raise (resource_exists() if error.field == "id" else error) from None


@mutation.field("updateDatasetV2")
async def change_folder(_: Any, info: Info, data: Shape, where: Shape) -> Shape:
    """Tags that are not given stay."""
    call = call_of(info)
    group, folders = await group_named(call, where["groupName"]), call.services.folders
    try:
        if data.get("tags") is None:
            return show_folder(await folders.get(call.actor, group, where["id"]))
        return show_folder(await folders.change(call.actor, group, where["id"], data["tags"]))
    except NotFound:
        raise missing(where["id"]) from None


@mutation.field("deleteDatasetV2")
async def delete_folder(_: Any, info: Info, where: Shape) -> Shape:
    call = call_of(info)
    group = await group_named(call, where["groupName"])
    try:
        folder = await call.services.folders.get(call.actor, group, where["id"])
        await call.services.folders.delete(call.actor, group, where["id"])
    except NotFound:
        raise missing(where["id"]) from None
    return show_folder(folder)


def show_folder(folder: TaggedFolder) -> Shape:
    return {
        "id": folder.id,
        "name": folder.id,
        "createdBy": folder.created_by,
        "createdAt": exact_instant(folder.created_at),
        "updatedAt": exact_instant(folder.updated_at),
        "tags": list(folder.tags),
        "size": folder.size,
    }


def missing(id: str) -> PhError:
    return PhError(f"There is no dataset {id[:100]}", NOT_FOUND)
