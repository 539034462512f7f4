"""One user, as others may see them."""

from __future__ import annotations

from typing import Any

from ariadne import ObjectType, QueryType

from holdfast.core.errors import NotFound

from ..errors import USER_NOT_EXIST, PhError, say
from ..graphql.call import Call, Info, call_of
from .shapes import name_user, show_user

Shape = dict[str, Any]

query, group_type = QueryType(), ObjectType("Group")
BINDABLES = (query, group_type)


@query.field("user")
async def get_user(_: Any, info: Info, where: Shape) -> Shape | None:
    """Admins are told by null that there is none: their clients look for that. Those of others look into whatever
    comes, so they are told in words, alike of users they may not know of."""
    call, name = call_of(info), where["id"]
    try:
        return show_user(await call.services.users.get(call.actor, name))
    except NotFound as error:
        if await _may_name(call, name):
            return name_user(name)
        if call.actor.admin:
            return None
        raise PhError(say(error), USER_NOT_EXIST) from None


async def _may_name(call: Call, name: str) -> bool:
    """Admins of a group take in whom they know by name, and see so whether there is such a user."""
    if any(call.actor.groups.values()):
        return await call.services.tokens.knows(name)
    for group in call.actor.groups:
        if name in (await call.services.groups.get(call.actor, group)).members:
            return True
    return False


@group_type.field("users")
async def users_of_group(group: Shape, info: Info) -> list[Shape]:
    """Its members, for each other and for admins."""
    call = call_of(info)
    if group["_group"] is None:
        return []
    known = await call.once("members", lambda: call.services.users.by_group(call.actor))
    found = known.get(group["id"], ())
    call.spend(len(found))
    return [show_user(user) for user in found]
