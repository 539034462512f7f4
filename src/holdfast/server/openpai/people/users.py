"""Users: list, create, delete."""

from __future__ import annotations

from typing import Any

from starlette.responses import Response

from holdfast.core.errors import Conflict, NotFound
from holdfast.core.job import DEFAULT_GROUP
from holdfast.core.records import User
from holdfast.server.responses import respond_json

from ..call import Call
from ..endpoints import AccessLevel, endpoint
from ..errors import PaiError, translate_errors
from ..values import get_boolean, get_names, get_object, get_text, require_text
from .shapes import user_to_json

_EXTENSION_NOTE = "Of the `extension` of others you see public keys only; admins see everything but secrets."


@endpoint("GET", "/v1/users", "/v2/users", "/v2/user", note=_EXTENSION_NOTE)
async def list_users(call: Call) -> Response:
    return respond_json(await _users_to_json(call, await call.services.users.list(call.actor)))


@endpoint("GET", "/v1/user/{user}", "/v1/users/{user}", "/v2/users/{user}", "/v2/user/{user}", note=_EXTENSION_NOTE)
async def get_user(call: Call) -> Response:
    name = call.get_path_text("user")
    with translate_errors((NotFound, 400, "NoUserError", build_no_user_message(name))):
        found = await call.services.users.get(call.actor, name)
    return respond_json((await _users_to_json(call, [found]))[0])


@endpoint(
    "POST",
    "/v2/users",
    "/v2/user",
    who=AccessLevel.ADMIN,
    note="Passwords need 8 characters; `virtualCluster` is the groups.",
)
async def create_user(call: Call) -> Response:
    body = await call.read_json_object()
    name = require_text(body, "username")
    groups = {DEFAULT_GROUP, *(get_names(body, "virtualCluster") or ()), *(get_names(body, "grouplist") or ())}
    await require_groups(call, groups)
    try:
        await call.services.users.create(
            call.actor,
            name=name,
            password=require_text(body, "password"),
            email=get_text(body, "email") or "",
            admin=get_boolean(body, "admin") or False,
            groups=dict.fromkeys(sorted(groups), False),
            extension=get_object(body, "extension"),
        )
    except Conflict as error:
        if error.field != "name":
            raise
        raise PaiError(409, "ConflictUserError", f"User name {name} already exists.") from error
    return respond_json({"message": "User is created successfully"}, 201)


@endpoint("DELETE", "/v2/users/{user}", "/v2/user/{user}", who=AccessLevel.ADMIN, note="Not with unfinished jobs.")
async def delete_user(call: Call) -> Response:
    name = call.get_path_text("user")
    with translate_errors((NotFound, 404, "NoUserError", build_no_user_message(name))):
        found = await call.services.users.get(call.actor, name)
        if found.admin:
            raise PaiError(403, "RemoveAdminError", f"{name} is an admin, and admins cannot be deleted.")
        await call.services.users.delete(call.actor, name)
    return respond_json({"message": "user is removed successfully"})


async def require_groups(call: Call, names: set[str]) -> None:
    known = {group.name for group in await call.services.groups.list(call.actor)}
    for name in sorted(names - known):
        raise PaiError(400, "NoVirtualClusterError", f"Virtual cluster {name[:100]} is not found.")


def build_no_user_message(name: str) -> str:
    return f"User {name[:100]} is not found."


async def _users_to_json(call: Call, users: list[User]) -> list[dict[str, Any]]:
    groups = [group.name for group in await call.services.groups.list(call.actor)]
    datasets = await call.services.datasets.list(call.actor)
    return [user_to_json(user, to=call.actor, groups=groups, datasets=datasets) for user in users]
