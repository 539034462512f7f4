"""Changes to users."""

from __future__ import annotations

from typing import Any

from starlette.responses import Response

from holdfast.core.errors import Forbidden, NotFound
from holdfast.core.job import DEFAULT_GROUP
from holdfast.core.records import User
from holdfast.server.answers import answer
from holdfast.server.auth import address_of
from holdfast.services.people.users import NO_CHANGE, UserChange

from ..call import Call
from ..endpoints import Who, endpoint
from ..errors import PaiError, telling
from ..values import bad, names_in, need_object, need_text, object_in, text_in, truth_in
from .users import need_groups, no_user

_ALL = ("email", "virtualCluster", "admin", "password", "extension")
_KEPT = "The default group is always kept."
_OF_ME = "`newPassword` needs `oldPassword`, and is set. Users cannot change `admin` and `virtualCluster` here: 403."


@endpoint("PUT", "/v2/users", "/v2/user", who=Who.ADMIN, note=f"All of it or nothing. {_KEPT}")
async def update_user(call: Call) -> Response:
    body = await call.body()
    data = need_object(body, "data")
    name = need_text(data, "username")
    if not truth_in(body, "patch"):
        _need_all(data)
    await _update(call, name, await _change_in(call, data))
    return _done(f"Update user {name} successfully.")


@endpoint("PUT", "/v2/users/me", "/v2/user/me", who=Who.PERSON, note=_OF_ME)
async def update_me(call: Call) -> Response:
    body = await call.body()
    data = need_object(body, "data")
    if need_text(data, "username") != call.actor.name:
        raise PaiError(403, "ForbiddenUserError", "Can't update other user's data")
    await _refuse_more(call, {**body, **data})
    change = UserChange(email=text_in(data, "email"), extension=object_in(data, "extension"))
    new = text_in(data, "newPassword")
    if new is None:
        await _update(call, call.actor.name, change)
    else:
        await _change_own_password(call, need_text(data, "oldPassword"), new, change)
    return _done(f"Update user {call.actor.name} successfully.")


@endpoint("PUT", "/v2/users/{user}/extension", "/v2/user/{user}/extension", who=Who.PERSON, note="Merged key by key.")
async def update_extension(call: Call) -> Response:
    await _update(call, _own(call), UserChange(extension=need_object(await call.body(), "extension")))
    return _done("Update user extension data successfully.")


@endpoint("PUT", "/v2/users/{user}/email", "/v2/user/{user}/email", who=Who.PERSON)
async def update_email(call: Call) -> Response:
    name, email = _own(call), text_in(await call.body(), "email")
    if email is None:
        raise bad("email is missing.")
    await _update(call, name, UserChange(email=email))
    return _done("Update user email successfully.")


@endpoint(
    "PUT",
    "/v2/users/{user}/password",
    "/v2/user/{user}/password",
    who=Who.PERSON,
    note="Admins need no `oldPassword`. Ends the user's logins.",
)
async def update_password(call: Call) -> Response:
    name, body = _own(call), await call.body()
    new, old = need_text(body, "newPassword"), text_in(body, "oldPassword")
    if name == call.actor.name and (old is not None or not call.actor.admin):
        await _change_own_password(call, need_text(body, "oldPassword"), new)
    else:
        await _update(call, name, UserChange(password=new))
    return _done("Update user password successfully.")


@endpoint("PUT", "/v2/users/{user}/admin", "/v2/user/{user}/admin", who=Who.ADMIN, note="One admin must be left.")
async def update_admin(call: Call) -> Response:
    admin = truth_in(await call.body(), "admin")
    if admin is None:
        raise bad("admin is missing.")
    await _update(call, call.path("user"), UserChange(admin=admin))
    return _done("Update user admin permission successfully.")


@endpoint("PUT", "/v2/users/{user}/virtualcluster", "/v2/user/{user}/virtualcluster", who=Who.ADMIN, note=_KEPT)
async def update_virtual_clusters(call: Call) -> Response:
    await _set_groups(call, names_in(await call.body(), "virtualCluster"), "virtualCluster")
    return _done("Update user virtual cluster successfully.")


@endpoint("PUT", "/v2/users/{user}/grouplist", "/v2/user/{user}/grouplist", who=Who.ADMIN, note=_KEPT)
async def update_groups(call: Call) -> Response:
    await _set_groups(call, names_in(await call.body(), "grouplist"), "grouplist")
    return _done("Update user grouplist successfully.")


@endpoint("PUT", "/v2/users/{user}/group", "/v2/user/{user}/group", who=Who.ADMIN)
async def add_group(call: Call) -> Response:
    user, group = call.path("user"), need_text(await call.body(), "groupname")
    found = await _find(call, user)
    await need_groups(call, {group})
    if group not in found.groups:
        await call.services.groups.set_member(call.actor, group, user, admin=False)
    return _done(f"User {user} is added into group {group}")


@endpoint("DELETE", "/v2/users/{user}/group", "/v2/user/{user}/group", who=Who.ADMIN, note=_KEPT)
async def leave_group(call: Call) -> Response:
    user, group = call.path("user"), need_text(await call.body(), "groupname")
    found = await _find(call, user)
    await need_groups(call, {group})
    if group == DEFAULT_GROUP:
        raise PaiError(403, "ForbiddenUserError", f"Everybody is in the group {DEFAULT_GROUP}.")
    if group in found.groups:
        await call.services.groups.remove_member(call.actor, group, user)
    return _done(f"User {user} is removed from group {group}")


async def _refuse_more(call: Call, given: dict[str, Any]) -> None:
    """Users cannot make themselves admins or join groups. Clients may send along what is the case already."""
    admin, groups = truth_in(given, "admin"), names_in(given, "virtualCluster") or ()
    mine = await _find(call, call.actor.name)
    if not mine.admin and (admin or not mine.groups.keys() >= set(groups)):
        raise PaiError(403, "ForbiddenUserError", "Non-admin is not allow to do this operation.")


def _need_all(data: dict[str, Any]) -> None:
    for name in _ALL:
        if data.get(name) is None:
            raise bad(f"{name} is missing. With patch: true only what is given is changed.")


async def _change_in(call: Call, data: dict[str, Any]) -> UserChange:
    groups = names_in(data, "virtualCluster")
    if groups is not None:
        await need_groups(call, set(groups))
    return UserChange(
        email=text_in(data, "email"),
        admin=truth_in(data, "admin"),
        password=text_in(data, "password"),
        groups=None if groups is None else frozenset(groups),
        extension=object_in(data, "extension"),
    )


async def _set_groups(call: Call, groups: list[str] | None, field: str) -> None:
    if groups is None:
        raise bad(f"{field} is missing.")
    await need_groups(call, set(groups))
    await _update(call, call.path("user"), UserChange(groups=frozenset(groups)))


def _own(call: Call) -> str:
    """The user in the address: oneself, or for an admin anyone."""
    name = call.path("user")
    if name != call.actor.name and not call.actor.admin:
        raise PaiError(403, "ForbiddenUserError", "Can't update other user's data")
    return name


async def _find(call: Call, name: str) -> User:
    with telling((NotFound, 404, "NoUserError", no_user(name))):
        return await call.services.users.get(call.actor, name)


async def _update(call: Call, name: str, change: UserChange) -> None:
    with telling((NotFound, 404, "NoUserError", no_user(name))):
        await call.services.users.update(call.actor, name, change)


async def _change_own_password(call: Call, old: str, new: str, also: UserChange = NO_CHANGE) -> None:
    with telling((Forbidden, 400, "IncorrectPasswordError", "Password is incorrect.")):
        await call.services.users.change_own_password(call.actor, old, new, address_of(call.request), also)


def _done(message: str) -> Response:
    return answer({"message": message}, 201)
