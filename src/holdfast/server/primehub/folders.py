"""Datasets of PrimeHub's later versions: folders of shared files with tags."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from ariadne import MutationType, QueryType

from holdfast.core.errors import Conflict, NotFound
from holdfast.services.files.tagged_folders import TaggedFolder

from .errors import PrimeHubError, build_conflict_error, build_plain_not_found_error
from .files import resolve_group_name
from .graphql.call import Info, get_call
from .graphql.paging import DEFAULT_PAGE_SIZE, build_numbered_page, clamp_page_number, has_cursor
from .graphql.scalars import format_exact_time
from .json_object import JsonObject

query, mutation = QueryType(), MutationType()
BINDABLES = (query, mutation)


@query.field("datasetV2")
async def get_folder(_: Any, info: Info, where: JsonObject) -> JsonObject:
    call = get_call(info)
    group = await resolve_group_name(call, where["groupName"])
    with _translate_not_found(where["id"]):
        return folder_to_json(await call.services.folders.get(call.actor, group, where["id"]))


@query.field("datasetV2Connection")
async def list_folders(_: Any, info: Info, where: JsonObject | None = None, **args: Any) -> JsonObject:
    call, filters = get_call(info), where or {}
    if not filters.get("groupName"):
        raise PrimeHubError("where.groupName is required")
    if has_cursor(args):
        raise PrimeHubError("Datasets can only be listed by page")
    group, page = await resolve_group_name(call, filters["groupName"]), clamp_page_number(args.get("page"))
    found = await call.services.folders.list(
        call.actor, group, search=filters.get("search"), page=page, page_size=DEFAULT_PAGE_SIZE
    )
    call.spend_rows(len(found.items))
    return build_numbered_page([folder_to_json(each) for each in found.items], page=page, total=found.total)


@mutation.field("createDatasetV2")
async def create_folder(_: Any, info: Info, data: JsonObject) -> JsonObject:
    call = get_call(info)
    group = await resolve_group_name(call, data["groupName"])
    try:
        return folder_to_json(await call.services.folders.create(call.actor, group, data["id"], data.get("tags") or ()))
    except Conflict as error:
        raise (build_conflict_error() if error.field == "id" else error) from None


@mutation.field("updateDatasetV2")
async def change_folder(_: Any, info: Info, data: JsonObject, where: JsonObject) -> JsonObject:
    """Change a folder. Tags that are not given stay."""
    call = get_call(info)
    group, folders = await resolve_group_name(call, where["groupName"]), call.services.folders
    with _translate_not_found(where["id"]):
        if data.get("tags") is None:
            return folder_to_json(await folders.get(call.actor, group, where["id"]))
        return folder_to_json(await folders.update(call.actor, group, where["id"], data["tags"]))


@mutation.field("deleteDatasetV2")
async def delete_folder(_: Any, info: Info, where: JsonObject) -> JsonObject:
    call = get_call(info)
    group = await resolve_group_name(call, where["groupName"])
    with _translate_not_found(where["id"]):
        folder = await call.services.folders.get(call.actor, group, where["id"])
        await call.services.folders.delete(call.actor, group, where["id"])
    return folder_to_json(folder)


def folder_to_json(folder: TaggedFolder) -> JsonObject:
    return {
        "id": folder.id,
        "name": folder.id,
        "createdBy": folder.created_by,
        "createdAt": format_exact_time(folder.created_at),
        "updatedAt": format_exact_time(folder.updated_at),
        "tags": list(folder.tags),
        "size": folder.size,
    }


@contextmanager
def _translate_not_found(id: str) -> Iterator[None]:
    try:
        yield
    except NotFound:
        raise build_plain_not_found_error("Dataset", id) from None
