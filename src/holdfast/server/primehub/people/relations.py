"""The groups an object is granted to, as PrimeHub writes them: groups to connect and to disconnect, with `everyone` for
all users; and the check for admins."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Protocol

from holdfast.core.access import Actor, Permission, has_permission
from holdfast.core.catalogue import ImageAlias, InstanceType
from holdfast.core.errors import NotFound
from holdfast.core.records import Dataset

from ..errors import PrimeHubError, build_not_auth_error, build_plain_not_found_error
from ..graphql.call import Call
from ..json_object import JsonObject
from .shapes import EVERYONE


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupLinkChanges:
    connect: Mapping[str, bool | None]  # group -> whether its jobs can write; None: not set
    disconnect: frozenset[str]
    everyone: bool | None  # None: not set
    everyone_writes: bool | None


GrantedObject = InstanceType | ImageAlias | Dataset


class GrantService(Protocol):
    """A service whose objects are granted to groups."""

    async def change(self, actor: Actor, name: str, change: Any) -> Any: ...

    async def grant(self, actor: Actor, name: str, group: str) -> Any: ...

    async def revoke(self, actor: Actor, name: str, group: str) -> Any: ...


def require_admin(call: Call) -> None:
    if not has_permission(call.actor, Permission.MANAGE_INSTALLATION):
        raise build_not_auth_error()


def parse_relation(data: JsonObject, key: str) -> tuple[list[JsonObject], list[str]]:
    """Return the objects to connect and the IDs to disconnect. One request can disconnect and connect the same object,
    to change a link."""
    relation = data.get(key) or {}
    return list(relation.get("connect") or ()), [each["id"] for each in relation.get("disconnect") or ()]


def parse_group_links(data: JsonObject) -> GroupLinkChanges:
    """Return the links. `global` sets `everyone`; otherwise a connection to the group `everyone` does."""
    coming, going = parse_relation(data, "groups")
    connect = {each["id"]: each.get("writable") for each in coming}
    connect |= {id: bool(connect[id]) for id in connect.keys() & set(going)}
    disconnect = set(going) - connect.keys()
    everyone = data.get("global")
    if everyone is None and EVERYONE in {*connect, *disconnect}:
        everyone = EVERYONE in connect
    writes = connect.pop(EVERYONE, None)
    disconnect.discard(EVERYONE)
    return GroupLinkChanges(
        connect=connect, disconnect=frozenset(disconnect), everyone=everyone, everyone_writes=writes
    )


async def check_groups_exist(call: Call, names: Sequence[str]) -> None:
    """Check that all groups exist, before anything is changed."""
    known = {group.name for group in await call.services.groups.list(call.actor)}
    for name in names:
        if name not in known:
            raise build_plain_not_found_error("Group", name)


async def update_granted_object(
    call: Call,
    service: GrantService,
    before: GrantedObject,
    change: Callable[..., Any],
    fields: JsonObject,
    links: GroupLinkChanges,
) -> None:
    """Change the fields, then one group after the other, so that concurrent changes are not lost; it is idempotent."""
    if links.everyone is not None and links.everyone != before.everyone:
        fields = {**fields, "everyone": links.everyone}
    if fields:
        await service.change(call.actor, before.name, change(**fields))
    for group in links.connect:
        if group not in before.groups:
            await service.grant(call.actor, before.name, group)
    await revoke_group_links(call, service, before, links)


async def revoke_group_links(call: Call, service: GrantService, before: GrantedObject, links: GroupLinkChanges) -> None:
    for group in sorted(links.disconnect & set(before.groups)):
        with suppress(NotFound):  # another request was faster
            await service.revoke(call.actor, before.name, group)


def check_name_unchanged(data: JsonObject, key: str, name: str) -> None:
    """Reject a changed name: names are IDs. Clients can send back the same name."""
    if data.get(key) not in (None, name):
        raise PrimeHubError(f"The {key} of {name[:100]} cannot be changed")
