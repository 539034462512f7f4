"""Which groups a thing is given to, as PrimeHub writes it: groups to connect and to disconnect, with `everyone` for
all; and who may write that at all."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Protocol

from holdfast.core.access import Actor, Verb, may
from holdfast.core.errors import NotFound

from ..errors import NOT_FOUND, PhError, not_auth
from ..graphql.call import Call
from .shapes import EVERYONE

Shape = dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Links:
    connect: Mapping[str, bool | None]  # group -> whether its jobs may write; None: not said
    disconnect: frozenset[str]
    everyone: bool | None  # None: not mentioned
    everyone_writes: bool | None


class Given(Protocol):
    """What has groups it is for."""

    async def grant(self, actor: Actor, name: str, group: str) -> Any: ...

    async def revoke(self, actor: Actor, name: str, group: str) -> Any: ...


def need_admin(call: Call) -> None:
    if not may(call.actor, Verb.MANAGE_PLACE):
        raise not_auth()


def related(data: Shape, key: str) -> tuple[list[Shape], list[str]]:
    """What is to be connected, and ids to be disconnected. Clients may disconnect first and then connect anew, all in
    one, to have a link changed."""
    relation = data.get(key) or {}
    return list(relation.get("connect") or ()), [each["id"] for each in relation.get("disconnect") or ()]


def read_links(data: Shape) -> Links:
    """`global` says it in one word; else it is for all when it is connected to `everyone`."""
    coming, going = related(data, "groups")
    connect = {each["id"]: each.get("writable") for each in coming}
    connect |= {id: bool(connect[id]) for id in connect.keys() & set(going)}
    disconnect = set(going) - connect.keys()
    everyone = data.get("global")
    if everyone is None and EVERYONE in {*connect, *disconnect}:
        everyone = EVERYONE in connect
    writes = connect.pop(EVERYONE, None)
    disconnect.discard(EVERYONE)
    return Links(connect=connect, disconnect=frozenset(disconnect), everyone=everyone, everyone_writes=writes)


async def check_groups(call: Call, names: Sequence[str]) -> None:
    """Before anything is changed."""
    known = {group.name for group in await call.services.groups.list(call.actor)}
    for name in names:
        if name not in known:
            raise PhError(f"There is no group {name[:100]}", NOT_FOUND)


async def relink(call: Call, things: Given, name: str, before: Sequence[str], links: Links) -> None:
    """One group after the other, so that what others connect meanwhile is not lost; doing it again does no harm."""
    for group in links.connect:
        if group not in before:
            await things.grant(call.actor, name, group)
    for group in sorted(links.disconnect & set(before)):
        with suppress(NotFound):  # somebody was faster
            await things.revoke(call.actor, name, group)


def keep_name(data: Shape, key: str, name: str) -> None:
    """Names are ids here; clients that send back all they were told do no harm."""
    if data.get(key) not in (None, name):
        raise PhError(f"The {key} of {name[:100]} cannot be changed")
