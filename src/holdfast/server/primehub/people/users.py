"""One user, as other users see them."""

from __future__ import annotations

from typing import Any

from ariadne import ObjectType, QueryType

from holdfast.core.errors import NotFound

from ..errors import USER_NOT_EXIST_CODE, PrimeHubError, format_error_line
from ..graphql.call import Call, Info, get_call
from ..json_object import JsonObject
from .shapes import user_name_to_json, user_to_json

query, group_type = QueryType(), ObjectType("Group")
BINDABLES = (query, group_type)


@query.field("user")
async def get_user(_: Any, info: Info, where: JsonObject) -> JsonObject | None:
    """Return a user. For admins a missing user is null, as their clients expect. Others get an error, also for users
    they cannot see."""
    call, name = get_call(info), where["id"]
    try:
        return user_to_json(await call.services.users.get(call.actor, name))
    except NotFound as error:
        if await _can_look_up_user(call, name):
            return user_name_to_json(name)
        if call.actor.admin:
            return None
        raise PrimeHubError(format_error_line(error), USER_NOT_EXIST_CODE) from None


async def _can_look_up_user(call: Call, name: str) -> bool:
    """Return whether the caller can look up a user by name: admins of a group add members that way."""
    if any(call.actor.groups.values()):
        return await call.services.tokens.has_user(name)
    for group in call.actor.groups:
        if name in (await call.services.groups.get(call.actor, group)).members:
            return True
    return False


@group_type.field("users")
async def resolve_group_users(group: JsonObject, info: Info) -> list[JsonObject]:
    """Return the members, for members and admins."""
    call = get_call(info)
    if group["_group"] is None:
        return []
    known = await call.load_once("members", lambda: call.services.users.load_users_by_group(call.actor))
    found = known.get(group["id"], ())
    call.spend_rows(len(found))
    return [user_to_json(user) for user in found]
