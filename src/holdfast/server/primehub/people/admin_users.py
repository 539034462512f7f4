"""Users, for admins."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ariadne import MutationType, QueryType

from holdfast.core.errors import Conflict, NotFound
from holdfast.core.records import User
from holdfast.services.people.users import UserChange

from ..errors import USER_NOT_EXIST, PhError, error_to_line
from ..graphql.call import Call, Info, get_call
from ..graphql.lists import list_nodes, page_nodes
from ..graphql.paging import Node, filter_nodes, get_row_count, sort_nodes
from .relations import check_groups, check_name_unchanged, parse_relation, require_admin
from .shapes import EVERYONE, EXTENSION_KEY, get_kept_fields, user_to_json

Shape = dict[str, Any]

query, mutation = QueryType(), MutationType()
BINDABLES = (query, mutation)

SEARCHED = ("username", "email", "firstName", "lastName")
KEPT_FIELDS = ("firstName", "lastName", "volumeCapacity")
MAX_NAME_LENGTH = 255
MAX_PAGE = 10**6


# -- queries


@query.field("users")
async def list_users(_: Any, info: Info, where: Shape | None = None, orderBy: Shape | None = None) -> Any:
    call = get_call(info)
    return list_nodes(call, await _list_user_shapes(call), where, orderBy, *SEARCHED)


@query.field("usersConnection")
async def page_users(
    _: Any,
    info: Info,
    where: Shape | None = None,
    userOrderBy: Shape | None = None,
    orderBy: Shape | None = None,
    **paging: Any,
) -> Shape:
    call, order = get_call(info), userOrderBy or orderBy
    index = _parse_page_index(paging)
    if index is None:
        return page_nodes(call, await _list_user_shapes(call), where, order, paging, *SEARCHED)
    found = sort_nodes(filter_nodes(await _list_user_shapes(call), where, *SEARCHED), order)
    rows = get_row_count(paging)
    call.spend_rows(rows)
    return _build_page(found, index, rows)


def _parse_page_index(paging: Shape) -> int | None:
    """Return the page index, if requested: only for users, `after` is a page number from 0."""
    if any(paging.get(name) is not None for name in ("page", "last", "before")):
        return None
    after = paging.get("after")
    if after is None:
        return 0 if paging.get("first") is not None else None
    return min(int(after), MAX_PAGE) if after.isdecimal() and len(after) < 10 else None


def _build_page(nodes: Sequence[Node], index: int, rows: int) -> Shape:
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


async def _list_user_shapes(call: Call) -> list[Shape]:
    require_admin(call)
    return [user_to_json(user) for user in await call.services.users.list(call.actor)]


# -- mutations


@mutation.field("createUser")
async def create_user(_: Any, info: Info, data: Shape) -> Shape:
    """Create a user, who can log in after `resetPassword`. Without groups, the user gets the default groups. No mail is
    sent, as in PrimeHub without a mail server."""
    call, name = get_call(info), data["username"]
    require_admin(call)
    groups = dict.fromkeys(_parse_groups(data)[0], False)
    kept = _merge_kept_fields({}, data)
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
        raise _translate_conflict(error) from None
    if data.get("enabled") is False:
        user = await call.services.users.update(call.actor, name, UserChange(disabled=True))
    return user_to_json(user)


def _translate_conflict(error: Conflict) -> PhError | Conflict:
    return PhError(error_to_line(error), "USER_CONFLICT_USERNAME") if error.field == "name" else error


@mutation.field("updateUser")
async def update_user(_: Any, info: Info, data: Shape, where: Shape) -> Shape:
    call, name = get_call(info), where["id"]
    before = await _find_user(call, name)
    check_name_unchanged(data, "username", name)
    connect, disconnect = _parse_groups(data)
    coming = [group for group in connect if group not in before.groups]
    await check_groups(call, coming)
    change = _parse_change(before, data)
    if change != UserChange():
        await call.services.users.update(call.actor, name, change)
    for group in coming:
        await call.services.groups.set_member(call.actor, group, name, admin=False)
    for group in disconnect:
        if group in before.groups:
            await call.services.groups.remove_member(call.actor, group, name)
    return user_to_json(await _find_user(call, name))


@mutation.field("deleteUser")
async def delete_user(_: Any, info: Info, where: Shape) -> Shape:
    call = get_call(info)
    found = await _find_user(call, where["id"])
    await call.services.users.delete(call.actor, found.name)
    return user_to_json(found)


@mutation.field("resetPassword")
async def reset_password(
    _: Any, info: Info, id: str | None = None, password: str | None = None, temporary: bool | None = None
) -> Shape:
    call = get_call(info)
    found = await _find_user(call, id or "")
    if temporary:
        raise PhError(
            "Temporary passwords are not supported. Omit --temporary; the user can run `holdfast user passwd`."
        )
    await call.services.users.set_password(call.actor, found.name, password or "")
    return user_to_json(found)


async def _find_user(call: Call, name: str) -> User:
    require_admin(call)
    try:
        return await call.services.users.get(call.actor, name)
    except NotFound as error:
        raise PhError(error_to_line(error), USER_NOT_EXIST) from None


# -- input


def _parse_groups(data: Shape) -> tuple[list[str], list[str]]:
    """Return the groups to join and to leave. All users stay in `everyone`."""
    connect, disconnect = parse_relation(data, "groups")
    coming = [each["id"] for each in connect if each["id"] != EVERYONE]
    return coming, [group for group in disconnect if group not in (*coming, EVERYONE)]


def _parse_change(user: User, data: Shape) -> UserChange:
    """Return the change; null removes an email or a name."""
    kept = _merge_kept_fields(get_kept_fields(user), data)
    enabled = data.get("enabled")
    return UserChange(
        email=data["email"] or "" if "email" in data else None,
        admin=data.get("isAdmin"),
        disabled=None if enabled is None else not enabled,
        extension={EXTENSION_KEY: kept} if kept != get_kept_fields(user) else None,
    )


def _merge_kept_fields(before: Shape, data: Shape) -> Shape:
    after = {**before, **{name: data[name] for name in KEPT_FIELDS if name in data}}
    for name in ("firstName", "lastName"):
        text = after.get(name) or ""
        if len(text) > MAX_NAME_LENGTH or not text.isprintable():
            raise PhError(f"{name} must be a single line of at most {MAX_NAME_LENGTH} characters")
    return {name: value for name, value in after.items() if value is not None}
