"""Groups, for admins; `groups` has what members see and what admins of a group change."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from ariadne import MutationType, QueryType

from holdfast.core.errors import Conflict
from holdfast.core.records import Group

from ..errors import PhError, say
from ..graphql.call import Call, Info, call_of
from ..graphql.lists import show_all, show_page
from .group_forms import read_group
from .groups import check_users, need_group, plan_members
from .relations import need_admin
from .shapes import show_group

Shape = dict[str, Any]

query, mutation = QueryType(), MutationType()
BINDABLES = (query, mutation)

SEARCHED = ("name", "displayName")


@query.field("groups")
async def list_groups(_: Any, info: Info, where: Shape | None = None, orderBy: Shape | None = None) -> Any:
    call = call_of(info)
    return show_all(call, await _all(call), where, orderBy, *SEARCHED)


@query.field("groupsConnection")
async def page_groups(
    _: Any, info: Info, where: Shape | None = None, orderBy: Shape | None = None, **paging: Any
) -> Shape:
    call = call_of(info)
    return show_page(call, await _all(call), where, orderBy, paging, *SEARCHED)


async def _all(call: Call) -> list[Shape]:
    """Without `everyone`, of which nothing can be changed."""
    need_admin(call)
    return [show_group(group) for group in await call.services.groups.list(call.actor)]


@mutation.field("createGroup")
async def create_group(_: Any, info: Info, data: Shape) -> Shape:
    call = call_of(info)
    need_admin(call)
    group = read_group(Group(name=data["name"]), data)
    members, _gone = plan_members(group, data)
    await check_users(call, group, members)
    try:
        return show_group(await call.services.groups.create(call.actor, replace(group, members=members)))
    except Conflict as error:
        raise PhError(say(error), "GROUP_CONFLICT_NAME") from None


@mutation.field("deleteGroup")
async def delete_group(_: Any, info: Info, where: Shape) -> Shape:
    """Jobs on record keep its name; while some are not finished, it stays."""
    call = call_of(info)
    need_admin(call)
    found = await need_group(call, where["id"])
    await call.services.groups.delete(call.actor, found.name)
    return show_group(found)
