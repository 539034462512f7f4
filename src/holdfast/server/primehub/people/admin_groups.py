"""Groups, for admins; `groups` has the queries of members and the mutations of group admins."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from ariadne import MutationType, QueryType

from holdfast.core.errors import Conflict
from holdfast.core.records import Group

from ..errors import PrimeHubError, format_error_line
from ..graphql.call import Call, Info, get_call
from ..graphql.lists import bind_list_queries
from ..json_object import JsonObject
from .group_forms import parse_group
from .groups import check_users_exist, plan_member_changes, require_group
from .relations import require_admin
from .shapes import group_to_json

query, mutation = QueryType(), MutationType()
BINDABLES = (query, mutation)


async def _list_group_nodes(call: Call, args: JsonObject) -> list[JsonObject]:
    """Return all groups but `everyone`, which cannot be changed."""
    require_admin(call)
    return [group_to_json(group) for group in await call.services.groups.list(call.actor)]


bind_list_queries(query, "groups", _list_group_nodes, "name", "displayName")


@mutation.field("createGroup")
async def create_group(_: Any, info: Info, data: JsonObject) -> JsonObject:
    call = get_call(info)
    require_admin(call)
    group = parse_group(Group(name=data["name"]), data)
    members, _gone = plan_member_changes(group, data)
    await check_users_exist(call, group, members)
    try:
        return group_to_json(await call.services.groups.create(call.actor, replace(group, members=members)))
    except Conflict as error:
        raise PrimeHubError(format_error_line(error), "GROUP_CONFLICT_NAME") from None


@mutation.field("deleteGroup")
async def delete_group(_: Any, info: Info, where: JsonObject) -> JsonObject:
    """Delete a group; rejected while it has unfinished jobs. Finished jobs keep its name."""
    call = get_call(info)
    require_admin(call)
    found = await require_group(call, where["id"])
    await call.services.groups.delete(call.actor, found.name)
    return group_to_json(found)
