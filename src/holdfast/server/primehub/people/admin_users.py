"""Users, for admins."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ariadne import MutationType, QueryType

from holdfast.core.errors import Conflict, NotFound
from holdfast.core.records import User
from holdfast.services.people.users import UserChange

from ..errors import USER_NOT_EXIST, PhError, say
from ..graphql.call import Call, Info, call_of
from ..graphql.lists import show_all, show_page
from ..graphql.paging import Node, arrange, narrow, rows_asked
from .relations import check_groups, keep_name, need_admin, related
from .shapes import EVERYONE, KEPT, kept_with, show_user

Shape = dict[str, Any]

query, mutation = QueryType(), MutationType()
BINDABLES = (query, mutation)

SEARCHED = ("username", "email", "firstName", "lastName")
KEPT_FIELDS = ("firstName", "lastName", "volumeCapacity")
MAX_NAME_LENGTH = 255
LAST_PAGE = 10**6


# -- looking


@query.field("users")
async def list_users(_: Any, info: Info, where: Shape | None = None, orderBy: Shape | None = None) -> Any:
    call = call_of(info)
    return show_all(call, await _all(call), where, orderBy, *SEARCHED)


@query.field("usersConnection")
async def page_users(
    _: Any,
    info: Info,
    where: Shape | None = None,
    userOrderBy: Shape | None = None,
    orderBy: Shape | None = None,
    **paging: Any,
) -> Shape:
    call, order = call_of(info), userOrderBy or orderBy
    index = _page_index(paging)
    if index is None:
        return show_page(call, await _all(call), where, order, paging, *SEARCHED)
    found = arrange(narrow(await _all(call), where, *SEARCHED), order)
    rows = rows_asked(paging)
    call.spend(rows)
    return _page(found, index, rows)


def _page_index(paging: Shape) -> int | None:
    """Of users, and of them alone, `after` is the number of a page, from 0. None: it is asked for in another way."""
    if any(paging.get(name) is not None for name in ("page", "last", "before")):
        return None
    after = paging.get("after")
    if after is None:
        return 0 if paging.get("first") is not None else None
    return min(int(after), LAST_PAGE) if after.isdecimal() and len(after) < 10 else None


def _page(nodes: Sequence[Node], index: int, rows: int) -> Shape:
    """Past the end it is empty."""
    shown = nodes[index * rows : (index + 1) * rows]
    more = (index + 1) * rows < len(nodes)
    info = {
        "hasNextPage": more,
        "hasPreviousPage": index > 0,
        "startCursor": str(index),
        "endCursor": str(index + 1 if more else index),
    }
    return {"edges": [{"cursor": node["id"], "node": node} for node in shown], "pageInfo": info}


async def _all(call: Call) -> list[Shape]:
    need_admin(call)
    return [show_user(user) for user in await call.services.users.list(call.actor)]


# -- changing


@mutation.field("createUser")
async def create_user(_: Any, info: Info, data: Shape) -> Shape:
    """Nobody can log in as this user before `resetPassword`. Without groups it gets those that new users get. No mail
    is sent, as from a PrimeHub without a mail server."""
    call, name = call_of(info), data["username"]
    need_admin(call)
    groups = dict.fromkeys(_groups(data)[0], False)
    kept = _kept({}, data)
    try:
        user = await call.services.users.create(
            call.actor,
            name=name,
            email=data.get("email") or "",
            admin=bool(data.get("isAdmin")),
            groups=groups or None,
            extension={KEPT: kept} if kept else None,
        )
    except Conflict as error:
        raise _named(error) from None
    if data.get("enabled") is False:
        user = await call.services.users.update(call.actor, name, UserChange(disabled=True))
    return show_user(user)


def _named(error: Conflict) -> PhError | Conflict:
    return PhError(say(error), "USER_CONFLICT_USERNAME") if error.field == "name" else error


@mutation.field("updateUser")
async def update_user(_: Any, info: Info, data: Shape, where: Shape) -> Shape:
    call, name = call_of(info), where["id"]
    before = await _need(call, name)
    keep_name(data, "username", name)
    connect, disconnect = _groups(data)
    coming = [group for group in connect if group not in before.groups]
    await check_groups(call, coming)
    change = _read_change(before, data)
    if change != UserChange():
        await call.services.users.update(call.actor, name, change)
    for group in coming:
        await call.services.groups.set_member(call.actor, group, name, admin=False)
    for group in disconnect:
        if group in before.groups:
            await call.services.groups.remove_member(call.actor, group, name)
    return show_user(await _need(call, name))


@mutation.field("deleteUser")
async def delete_user(_: Any, info: Info, where: Shape) -> Shape:
    call = call_of(info)
    found = await _need(call, where["id"])
    await call.services.users.delete(call.actor, found.name)
    return show_user(found)


@mutation.field("resetPassword")
async def reset_password(
    _: Any, info: Info, id: str | None = None, password: str | None = None, temporary: bool | None = None
) -> Shape:
    call = call_of(info)
    found = await _need(call, id or "")
    if temporary:
        said = "No password is temporary here. Leave out --temporary, and let the user change it: holdfast user passwd."
        raise PhError(said)
    await call.services.users.set_password(call.actor, found.name, password or "")
    return show_user(found)


async def _need(call: Call, name: str) -> User:
    need_admin(call)
    try:
        return await call.services.users.get(call.actor, name)
    except NotFound as error:
        raise PhError(say(error), USER_NOT_EXIST) from None


# -- reading what was sent


def _groups(data: Shape) -> tuple[list[str], list[str]]:
    """To be in, and to be out of. Everybody is in `everyone`, and stays."""
    connect, disconnect = related(data, "groups")
    coming = [each["id"] for each in connect if each["id"] != EVERYONE]
    return coming, [group for group in disconnect if group not in (*coming, EVERYONE)]


def _read_change(user: User, data: Shape) -> UserChange:
    """Null takes an email or a name away."""
    kept = _kept(kept_with(user), data)
    enabled = data.get("enabled")
    return UserChange(
        email=data["email"] or "" if "email" in data else None,
        admin=data.get("isAdmin"),
        disabled=None if enabled is None else not enabled,
        extension={KEPT: kept} if kept != kept_with(user) else None,
    )


def _kept(before: Shape, data: Shape) -> Shape:
    after = {**before, **{name: data[name] for name in KEPT_FIELDS if name in data}}
    for name in ("firstName", "lastName"):
        text = after.get(name) or ""
        if len(text) > MAX_NAME_LENGTH or not text.isprintable():
            raise PhError(f"{name} is a text on one line of at most {MAX_NAME_LENGTH} characters")
    return {name: value for name, value in after.items() if value is not None}
