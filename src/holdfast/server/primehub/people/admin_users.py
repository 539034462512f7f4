"""Users, for admins."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ariadne import MutationType, QueryType

from holdfast.core.errors import Conflict, NotFound
from holdfast.core.records import User
from holdfast.services.people.users import UserChange

from ..errors import USER_NOT_EXIST_CODE, PrimeHubError, format_error_line
from ..graphql.call import Call, Info, get_call
from ..graphql.lists import list_nodes, paginate_filtered_nodes
from ..graphql.paging import Node, filter_nodes, get_cursor_page_size, sort_nodes
from ..json_object import JsonObject
from .relations import check_groups_exist, check_name_unchanged, parse_relation, require_admin
from .shapes import EVERYONE, EXTENSION_KEY, get_extension_fields, user_to_json

query, mutation = QueryType(), MutationType()
BINDABLES = (query, mutation)

SEARCHED_FIELDS = ("username", "email", "firstName", "lastName")
EXTENSION_FIELDS = ("firstName", "lastName", "volumeCapacity")
MAX_NAME_LENGTH = 255
MAX_PAGE_INDEX = 10**6


# -- queries


@query.field("users")
async def list_users(_: Any, info: Info, where: JsonObject | None = None, orderBy: JsonObject | None = None) -> Any:
    call = get_call(info)
    return list_nodes(call, await _list_user_nodes(call), where, orderBy, *SEARCHED_FIELDS)


@query.field("usersConnection")
async def page_users(
    _: Any,
    info: Info,
    where: JsonObject | None = None,
    userOrderBy: JsonObject | None = None,
    orderBy: JsonObject | None = None,
    **paging: Any,
) -> JsonObject:
    call, order = get_call(info), userOrderBy or orderBy
    index = _parse_page_index(paging)
    if index is None:
        return paginate_filtered_nodes(call, await _list_user_nodes(call), where, order, paging, *SEARCHED_FIELDS)
    found = sort_nodes(filter_nodes(await _list_user_nodes(call), where, *SEARCHED_FIELDS), order)
    rows = get_cursor_page_size(paging)
    call.spend_rows(rows)
    return _build_indexed_page(found, index, rows)


def _parse_page_index(paging: JsonObject) -> int | None:
    """Return the page index, if requested: only for users, `after` is a page number from 0."""
    if any(paging.get(name) is not None for name in ("page", "last", "before")):
        return None
    after = paging.get("after")
    if after is None:
        return 0 if paging.get("first") is not None else None
    return min(int(after), MAX_PAGE_INDEX) if after.isdecimal() and len(after) < 10 else None


def _build_indexed_page(nodes: Sequence[Node], index: int, rows: int) -> JsonObject:
    """Return a page; after the last one it is empty."""
    shown = nodes[index * rows : (index + 1) * rows]
    more = (index + 1) * rows < len(nodes)
    info = {
        "hasNextPage": more,
        "hasPreviousPage": index > 0,
        "startCursor": str(index),
        "endCursor": str(index + 1 if more else index),
    }
    return {"edges": [{"cursor": node["id"], "node": node} for node in shown], "pageInfo": info}


async def _list_user_nodes(call: Call) -> list[JsonObject]:
    require_admin(call)
    return [user_to_json(user) for user in await call.services.users.list(call.actor)]


# -- mutations


@mutation.field("createUser")
async def create_user(_: Any, info: Info, data: JsonObject) -> JsonObject:
    """Create a user, who can log in after `resetPassword`. Without groups, the user gets the default groups. No mail is
    sent, as in PrimeHub without a mail server."""
    call, name = get_call(info), data["username"]
    require_admin(call)
    groups = dict.fromkeys(_parse_group_changes(data)[0], False)
    kept = _merge_extension_fields({}, data)
    try:
        user = await call.services.users.create(
            call.actor,
            name=name,
            email=data.get("email") or "",
            admin=bool(data.get("isAdmin")),
            groups=groups or None,
            extension={EXTENSION_KEY: kept} if kept else None,
        )
    except Conflict as error:
        raise _translate_user_conflict(error) from None
    if data.get("enabled") is False:
        user = await call.services.users.apply_change(call.actor, name, UserChange(disabled=True))
    return user_to_json(user)


def _translate_user_conflict(error: Conflict) -> PrimeHubError | Conflict:
    return PrimeHubError(format_error_line(error), "USER_CONFLICT_USERNAME") if error.field == "name" else error


@mutation.field("updateUser")
async def update_user(_: Any, info: Info, data: JsonObject, where: JsonObject) -> JsonObject:
    call, name = get_call(info), where["id"]
    before = await _load_user(call, name)
    check_name_unchanged(data, "username", name)
    connect, disconnect = _parse_group_changes(data)
    coming = [group for group in connect if group not in before.groups]
    await check_groups_exist(call, coming)
    change = _parse_user_change(before, data)
    if change != UserChange():
        await call.services.users.apply_change(call.actor, name, change)
    for group in coming:
        await call.services.groups.set_member(call.actor, group, name, admin=False)
    for group in disconnect:
        if group in before.groups:
            await call.services.groups.remove_member(call.actor, group, name)
    return user_to_json(await _load_user(call, name))


@mutation.field("deleteUser")
async def delete_user(_: Any, info: Info, where: JsonObject) -> JsonObject:
    call = get_call(info)
    found = await _load_user(call, where["id"])
    await call.services.users.delete(call.actor, found.name)
    return user_to_json(found)


@mutation.field("resetPassword")
async def reset_password(
    _: Any, info: Info, id: str | None = None, password: str | None = None, temporary: bool | None = None
) -> JsonObject:
    call = get_call(info)
    found = await _load_user(call, id or "")
    if temporary:
        raise PrimeHubError(
            "Temporary passwords are not supported. Omit --temporary; the user can run `holdfast user passwd`."
        )
    await call.services.users.set_password(call.actor, found.name, password or "")
    return user_to_json(found)


async def _load_user(call: Call, name: str) -> User:
    require_admin(call)
    try:
        return await call.services.users.get(call.actor, name)
    except NotFound as error:
        raise PrimeHubError(format_error_line(error), USER_NOT_EXIST_CODE) from None


# -- input


def _parse_group_changes(data: JsonObject) -> tuple[list[str], list[str]]:
    """Return the groups to join and to leave. All users stay in `everyone`."""
    connect, disconnect = parse_relation(data, "groups")
    coming = [each["id"] for each in connect if each["id"] != EVERYONE]
    return coming, [group for group in disconnect if group not in (*coming, EVERYONE)]


def _parse_user_change(user: User, data: JsonObject) -> UserChange:
    """Return the change; null removes an email or a name."""
    kept = _merge_extension_fields(get_extension_fields(user), data)
    enabled = data.get("enabled")
    return UserChange(
        email=data["email"] or "" if "email" in data else None,
        admin=data.get("isAdmin"),
        disabled=None if enabled is None else not enabled,
        extension={EXTENSION_KEY: kept} if kept != get_extension_fields(user) else None,
    )


def _merge_extension_fields(before: JsonObject, data: JsonObject) -> JsonObject:
    after = {**before, **{name: data[name] for name in EXTENSION_FIELDS if name in data}}
    for name in ("firstName", "lastName"):
        text = after.get(name) or ""
        if len(text) > MAX_NAME_LENGTH or not text.isprintable():
            raise PrimeHubError(f"{name} must be a single line of at most {MAX_NAME_LENGTH} characters")
    return {name: value for name, value in after.items() if value is not None}
