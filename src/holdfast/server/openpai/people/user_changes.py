"""Changes to users."""

from __future__ import annotations

from typing import Any

from starlette.responses import Response

from holdfast.core.errors import Forbidden, NotFound
from holdfast.core.job import DEFAULT_GROUP
from holdfast.core.records import User
from holdfast.server.auth import get_client_address
from holdfast.services.people.users import NO_CHANGE, UserChange

from ..call import Call
from ..endpoints import AccessLevel, endpoint
from ..errors import PaiError, translate_errors
from ..values import build_bad_value_error, get_boolean, get_names, get_object, get_text, require_object, require_text
from .shapes import respond_message
from .users import build_no_user_message, require_groups

_REQUIRED_FIELDS = ("email", "virtualCluster", "admin", "password", "extension")
_DEFAULT_GROUP_NOTE = "The default group is always kept."
_OWN_CHANGE_NOTE = "`newPassword` requires `oldPassword`. Users cannot change `admin` and `virtualCluster`: 403."


@endpoint(
    "PUT",
    "/v2/users",
    "/v2/user",
    who=AccessLevel.ADMIN,
    note=f"Either all fields change or none. {_DEFAULT_GROUP_NOTE}",
)
async def update_user(call: Call) -> Response:
    body = await call.read_json_object()
    data = require_object(body, "data")
    name = require_text(data, "username")
    if not get_boolean(body, "patch"):
        _require_all_fields(data)
    await _update_user(call, name, await _parse_change(call, data))
    return respond_message(f"Update user {name} successfully.")


@endpoint("PUT", "/v2/users/me", "/v2/user/me", who=AccessLevel.PERSON, note=_OWN_CHANGE_NOTE)
async def update_me(call: Call) -> Response:
    body = await call.read_json_object()
    data = require_object(body, "data")
    if require_text(data, "username") != call.actor.name:
        raise PaiError(403, "ForbiddenUserError", "Can't update other user's data")
    await _reject_admin_changes(call, {**body, **data})
    change = UserChange(email=get_text(data, "email"), extension=get_object(data, "extension"))
    new = get_text(data, "newPassword")
    if new is None:
        await _update_user(call, call.actor.name, change)
    else:
        await _change_own_password(call, require_text(data, "oldPassword"), new, change)
    return respond_message(f"Update user {call.actor.name} successfully.")


@endpoint(
    "PUT", "/v2/users/{user}/extension", "/v2/user/{user}/extension", who=AccessLevel.PERSON, note="Merged key by key."
)
async def update_extension(call: Call) -> Response:
    await _update_user(
        call, _get_target_user(call), UserChange(extension=require_object(await call.read_json_object(), "extension"))
    )
    return respond_message("Update user extension data successfully.")


@endpoint("PUT", "/v2/users/{user}/email", "/v2/user/{user}/email", who=AccessLevel.PERSON)
async def update_email(call: Call) -> Response:
    name, email = _get_target_user(call), get_text(await call.read_json_object(), "email")
    if email is None:
        raise build_bad_value_error("email is missing.")
    await _update_user(call, name, UserChange(email=email))
    return respond_message("Update user email successfully.")


@endpoint(
    "PUT",
    "/v2/users/{user}/password",
    "/v2/user/{user}/password",
    who=AccessLevel.PERSON,
    note="Admins can omit `oldPassword`. Ends the user's logins.",
)
async def update_password(call: Call) -> Response:
    name, body = _get_target_user(call), await call.read_json_object()
    new, old = require_text(body, "newPassword"), get_text(body, "oldPassword")
    if name == call.actor.name and (old is not None or not call.actor.admin):
        await _change_own_password(call, require_text(body, "oldPassword"), new)
    else:
        await _update_user(call, name, UserChange(password=new))
    return respond_message("Update user password successfully.")


@endpoint(
    "PUT", "/v2/users/{user}/admin", "/v2/user/{user}/admin", who=AccessLevel.ADMIN, note="Not for the last admin."
)
async def update_admin_role(call: Call) -> Response:
    admin = get_boolean(await call.read_json_object(), "admin")
    if admin is None:
        raise build_bad_value_error("admin is missing.")
    await _update_user(call, call.get_path_text("user"), UserChange(admin=admin))
    return respond_message("Update user admin permission successfully.")


@endpoint(
    "PUT",
    "/v2/users/{user}/virtualcluster",
    "/v2/user/{user}/virtualcluster",
    who=AccessLevel.ADMIN,
    note=_DEFAULT_GROUP_NOTE,
)
async def update_virtual_clusters(call: Call) -> Response:
    await _set_user_groups(call, get_names(await call.read_json_object(), "virtualCluster"), "virtualCluster")
    return respond_message("Update user virtual cluster successfully.")


@endpoint(
    "PUT", "/v2/users/{user}/grouplist", "/v2/user/{user}/grouplist", who=AccessLevel.ADMIN, note=_DEFAULT_GROUP_NOTE
)
async def update_groups(call: Call) -> Response:
    await _set_user_groups(call, get_names(await call.read_json_object(), "grouplist"), "grouplist")
    return respond_message("Update user grouplist successfully.")


@endpoint("PUT", "/v2/users/{user}/group", "/v2/user/{user}/group", who=AccessLevel.ADMIN)
async def add_user_to_group(call: Call) -> Response:
    user, group = call.get_path_text("user"), require_text(await call.read_json_object(), "groupname")
    found = await _get_user(call, user)
    await require_groups(call, {group})
    if group not in found.groups:
        await call.services.groups.set_member(call.actor, group, user, admin=False)
    return respond_message(f"User {user} is added into group {group}")


@endpoint("DELETE", "/v2/users/{user}/group", "/v2/user/{user}/group", who=AccessLevel.ADMIN, note=_DEFAULT_GROUP_NOTE)
async def remove_user_from_group(call: Call) -> Response:
    user, group = call.get_path_text("user"), require_text(await call.read_json_object(), "groupname")
    found = await _get_user(call, user)
    await require_groups(call, {group})
    if group == DEFAULT_GROUP:
        raise PaiError(403, "ForbiddenUserError", f"All users are in group {DEFAULT_GROUP}.")
    if group in found.groups:
        await call.services.groups.remove_member(call.actor, group, user)
    return respond_message(f"User {user} is removed from group {group}")


async def _reject_admin_changes(call: Call, given: dict[str, Any]) -> None:
    """Reject changes of admin rights and groups by users themselves. Unchanged values are accepted."""
    admin, groups = get_boolean(given, "admin"), get_names(given, "virtualCluster") or ()
    mine = await _get_user(call, call.actor.name)
    if not mine.admin and (admin or not mine.groups.keys() >= set(groups)):
        raise PaiError(403, "ForbiddenUserError", "Non-admin is not allow to do this operation.")


def _require_all_fields(data: dict[str, Any]) -> None:
    for name in _REQUIRED_FIELDS:
        if data.get(name) is None:
            raise build_bad_value_error(f"{name} is missing. With patch: true only the given fields are changed.")


async def _parse_change(call: Call, data: dict[str, Any]) -> UserChange:
    groups = get_names(data, "virtualCluster")
    if groups is not None:
        await require_groups(call, set(groups))
    return UserChange(
        email=get_text(data, "email"),
        admin=get_boolean(data, "admin"),
        password=get_text(data, "password"),
        groups=None if groups is None else frozenset(groups),
        extension=get_object(data, "extension"),
    )


async def _set_user_groups(call: Call, groups: list[str] | None, field: str) -> None:
    if groups is None:
        raise build_bad_value_error(f"{field} is missing.")
    await require_groups(call, set(groups))
    await _update_user(call, call.get_path_text("user"), UserChange(groups=frozenset(groups)))


def _get_target_user(call: Call) -> str:
    """Return the user in the URL: the caller, or any user for an admin."""
    name = call.get_path_text("user")
    if name != call.actor.name and not call.actor.admin:
        raise PaiError(403, "ForbiddenUserError", "Can't update other user's data")
    return name


async def _get_user(call: Call, name: str) -> User:
    with translate_errors((NotFound, 404, "NoUserError", build_no_user_message(name))):
        return await call.services.users.get(call.actor, name)


async def _update_user(call: Call, name: str, change: UserChange) -> None:
    with translate_errors((NotFound, 404, "NoUserError", build_no_user_message(name))):
        await call.services.users.apply_change(call.actor, name, change)


async def _change_own_password(call: Call, old: str, new: str, also: UserChange = NO_CHANGE) -> None:
    with translate_errors((Forbidden, 400, "IncorrectPasswordError", "Password is incorrect.")):
        await call.services.users.change_own_password(call.actor, old, new, get_client_address(call.request), also)
