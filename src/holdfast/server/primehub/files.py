"""A group's shared files as PrimeHub lists them: objects whose names begin with a text."""

from __future__ import annotations

from typing import Any

from ariadne import MutationType, QueryType

from holdfast.core.identity import group_path

from .graphql.call import Call, Info, call_of
from .graphql.scalars import exact_instant

Shape = dict[str, Any]

query, mutation = QueryType(), MutationType()
BINDABLES = (query, mutation)

MAX_COUNT = 1000  # items of one answer, unless less is asked for


@query.field("files")
async def list_files(_: Any, info: Info, where: Shape, options: Shape | None = None) -> Shape:
    """Recursive: names less the whole prefix, so that of a file itself is empty, by which clients know it is one. Else
    what lies in the folder of that name, folders with a slash at their end and without a time."""
    call, given = call_of(info), options or {}
    group = await group_named(call, where["groupName"])
    prefix, recursive = where["phfsPrefix"], bool(given.get("recursive"))
    limit = min(max(given.get("limit") or MAX_COUNT, 1), MAX_COUNT)
    found = await call.services.files.objects(call.actor, group, prefix, recursive=recursive, limit=limit)
    call.spend(len(found.items))
    shown = show_prefix(prefix, recursive=recursive)
    return {
        "prefix": f"groups/{group_path(group)}{shown}",
        "phfsPrefix": shown,
        "items": [
            {"name": item.name, "size": item.size, "lastModified": exact_instant(item.modified_at)}
            for item in found.items
        ],
    }


@mutation.field("deleteFiles")
async def delete_files(_: Any, info: Info, where: Shape, options: Shape | None = None) -> int:
    call = call_of(info)
    group = await group_named(call, where["groupName"])
    recursive = bool((options or {}).get("recursive"))
    return await call.services.files.delete_objects(call.actor, group, where["phfsPrefix"], recursive=recursive)


async def group_named(call: Call, name: str) -> str:
    """Clients write a group as it is called, or as in paths."""
    return await call.services.files.group_of_path(call.actor, name)


def show_prefix(prefix: str, *, recursive: bool) -> str:
    shown = f"/{prefix.lstrip('/')}"
    return shown if recursive or shown.endswith("/") else f"{shown}/"
