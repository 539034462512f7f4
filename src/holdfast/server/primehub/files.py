"""A group's shared files as PrimeHub lists them: objects by name prefix."""

from __future__ import annotations

from typing import Any

from ariadne import MutationType, QueryType

from holdfast.core.identity import format_group_path

from .graphql.call import Call, Info, get_call
from .graphql.scalars import format_exact_time
from .json_object import JsonObject

query, mutation = QueryType(), MutationType()
BINDABLES = (query, mutation)

MAX_LISTED_FILES = 1000  # items in one response, unless fewer are requested


@query.field("files")
async def list_files(_: Any, info: Info, where: JsonObject, options: JsonObject | None = None) -> JsonObject:
    """List files. Recursive: names without the prefix; an empty name means that the prefix itself is a file. Otherwise
    the items of that folder; folders end with a slash and have no time."""
    call, given = get_call(info), options or {}
    group = await resolve_group_name(call, where["groupName"])
    prefix, recursive = where["phfsPrefix"], bool(given.get("recursive"))
    limit = min(max(given.get("limit") or MAX_LISTED_FILES, 1), MAX_LISTED_FILES)
    found = await call.services.files.list_objects(call.actor, group, prefix, recursive=recursive, limit=limit)
    call.spend_rows(len(found.items))
    shown = format_prefix(prefix, recursive=recursive)
    return {
        "prefix": f"groups/{format_group_path(group)}{shown}",
        "phfsPrefix": shown,
        "items": [
            {"name": item.name, "size": item.size, "lastModified": format_exact_time(item.modified_at)}
            for item in found.items
        ],
    }


@mutation.field("deleteFiles")
async def delete_files(_: Any, info: Info, where: JsonObject, options: JsonObject | None = None) -> int:
    call = get_call(info)
    group = await resolve_group_name(call, where["groupName"])
    recursive = bool((options or {}).get("recursive"))
    return await call.services.files.delete_objects(call.actor, group, where["phfsPrefix"], recursive=recursive)


async def resolve_group_name(call: Call, name: str) -> str:
    """Return the group for its name, or for its name in paths."""
    return await call.services.files.find_group_by_path(call.actor, name)


def format_prefix(prefix: str, *, recursive: bool) -> str:
    shown = f"/{prefix.lstrip('/')}"
    return shown if recursive or shown.endswith("/") else f"{shown}/"
