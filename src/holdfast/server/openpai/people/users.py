"""Users: looking, making, removing."""

from __future__ import annotations

from typing import Any

from starlette.responses import Response

from holdfast.core.errors import Conflict, NotFound
from holdfast.core.job import DEFAULT_GROUP
from holdfast.core.records import User
from holdfast.server.answers import answer

from ..call import Call
from ..endpoints import Who, endpoint
from ..errors import PaiError, telling
from ..values import names_in, need_text, object_in, text_in, truth_in
from .shapes import show_user

_SEEN = "Of the `extension` of others one sees public keys only; admins see all but secrets."


@endpoint("GET", "/v1/users", "/v2/users", "/v2/user", note=_SEEN)
async def list_users(call: Call) -> Response:
    return answer(await _show(call, await call.services.users.list(call.actor)))


@endpoint("GET", "/v1/user/{user}", "/v1/users/{user}", "/v2/users/{user}", "/v2/user/{user}", note=_SEEN)
async def get_user(call: Call) -> Response:
    name = call.path("user")
    with telling((NotFound, 400, "NoUserError", no_user(name))):
        found = await call.services.users.get(call.actor, name)
    return answer((await _show(call, [found]))[0])


@endpoint(
    "POST", "/v2/users", "/v2/user", who=Who.ADMIN, note="Passwords need 8 characters here; `virtualCluster` is groups."
)
async def create_user(call: Call) -> Response:
    body = await call.body()
    name = need_text(body, "username")
    groups = {DEFAULT_GROUP, *(names_in(body, "virtualCluster") or ()), *(names_in(body, "grouplist") or ())}
    await need_groups(call, groups)
    try:
        await call.services.users.create(
            call.actor,
            name=name,
            password=need_text(body, "password"),
            email=text_in(body, "email") or "",
            admin=truth_in(body, "admin") or False,
            groups=dict.fromkeys(sorted(groups), False),
            extension=object_in(body, "extension"),
        )
    except Conflict as error:
        if error.field != "name":
            raise
        raise PaiError(409, "ConflictUserError", f"User name {name} already exists.") from error
    return answer({"message": "User is created successfully"}, 201)


@endpoint("DELETE", "/v2/users/{user}", "/v2/user/{user}", who=Who.ADMIN, note="Not while jobs of theirs run.")
async def delete_user(call: Call) -> Response:
    name = call.path("user")
    with telling((NotFound, 404, "NoUserError", no_user(name))):
        found = await call.services.users.get(call.actor, name)
        if found.admin:
            raise PaiError(403, "RemoveAdminError", f"{name} is an admin, and admins are not removed.")
        await call.services.users.delete(call.actor, name)
    return answer({"message": "user is removed successfully"})


async def need_groups(call: Call, names: set[str]) -> None:
    known = {group.name for group in await call.services.groups.list(call.actor)}
    for name in sorted(names - known):
        raise PaiError(400, "NoVirtualClusterError", f"Virtual cluster {name[:100]} is not found.")


def no_user(name: str) -> str:
    return f"User {name[:100]} is not found."


async def _show(call: Call, users: list[User]) -> list[dict[str, Any]]:
    groups = [group.name for group in await call.services.groups.list(call.actor)]
    datasets = await call.services.datasets.list(call.actor)
    return [show_user(user, to=call.actor, groups=groups, datasets=datasets) for user in users]
