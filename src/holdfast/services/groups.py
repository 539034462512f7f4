"""Groups: who shares a queue and a quota."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from enum import Enum
from typing import Any

from sqlalchemy import Connection

from holdfast.core.access import Actor, Verb, may
from holdfast.core.errors import Conflict, Forbidden, NotFound
from holdfast.core.job import DEFAULT_GROUP
from holdfast.core.placement import Quota
from holdfast.core.records import Group
from holdfast.store import people
from holdfast.store.database import Store

from .control import Control
from .extensions import check_extension, merge
from .names import check_name, check_prose
from .unfinished import has_jobs, has_unfinished


class Unset(Enum):
    """Not mentioned, as against set to nothing."""

    UNSET = "unset"


UNSET = Unset.UNSET


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupChange:
    description: str | Unset = UNSET
    quota: Quota | Unset = UNSET
    user_quota: Quota | Unset = UNSET
    time_limit: timedelta | Unset | None = UNSET
    extension: Mapping[str, Any] | Unset = UNSET  # merged key by key
    replace_extension: bool = False


class Groups:
    def __init__(self, store: Store, control: Control, *, forget: Sequence[Callable[[], None]]) -> None:
        self._store = store
        self._control = control
        self._forget = forget  # what others remember of groups

    async def list(self, actor: Actor) -> list[Group]:
        """All, for admins and where everybody reads everything; one's own, for others."""
        groups = await self._store.read(people.list_groups)
        return [group for group in groups if _may_see(actor, group.name)]

    async def get(self, actor: Actor, name: str) -> Group:
        group = await self._store.read(people.get_group, name) if _may_see(actor, name) else None
        if group is None:
            raise _unknown(name)
        return group

    async def create(self, actor: Actor, group: Group) -> Group:
        _need_admin(actor)
        check_name(group.name, "group")
        check_prose(group.description, "description")
        group = replace(group, extension=merge({}, group.extension, replace=True))
        check_extension(group.extension)
        await self._store.write(_create, group)
        await self._changed()
        return group

    async def change(self, actor: Actor, name: str, change: GroupChange) -> Group:
        _need_admin(actor)
        if not isinstance(change.description, Unset):
            check_prose(change.description, "description")
        if not isinstance(change.extension, Unset):
            check_extension(merge({}, change.extension, replace=True))  # before it holds up the writer; and again there
        group = await self._store.write(_change, name, change)
        await self._changed()
        return group

    async def extend(self, actor: Actor, name: str, changes: Mapping[str, Any], *, replace: bool = False) -> Group:
        """What clients keep with a group: merged key by key, or replaced."""
        return await self.change(actor, name, GroupChange(extension=changes, replace_extension=replace))

    async def delete(self, actor: Actor, name: str) -> None:
        _need_admin(actor)
        if name == DEFAULT_GROUP:
            raise Conflict(f"The group {DEFAULT_GROUP} cannot be removed")
        await self._store.write(_delete, name)
        await self._changed()

    async def set_member(self, actor: Actor, name: str, user: str, *, admin: bool) -> Group:
        self._need_group_admin(actor, name)
        group = await self._store.write(_set_member, name, user, admin)
        await self._changed()
        return group

    async def remove_member(self, actor: Actor, name: str, user: str) -> Group:
        self._need_group_admin(actor, name)
        group = await self._store.write(_remove_member, name, user)
        await self._changed()
        return group

    def _need_group_admin(self, actor: Actor, name: str) -> None:
        if not _may_see(actor, name):
            raise _unknown(name)
        if not may(actor, Verb.MANAGE_GROUP, name):
            raise Forbidden(f"Only admins of {name} change its members")

    async def _changed(self) -> None:
        for forget in self._forget:
            forget()
        self._control.groups_changed(list(await self._store.read(people.list_groups)))


def _may_see(actor: Actor, name: str) -> bool:
    return actor.admin or actor.reads_all or name in actor.groups


def _need_admin(actor: Actor) -> None:
    if not may(actor, Verb.MANAGE_PLACE):
        raise Forbidden("Only admins manage groups")


def _unknown(name: str) -> NotFound:
    return NotFound(f"There is no group {name}")


# -- within one write each


def _need(conn: Connection, name: str) -> Group:
    group = people.get_group(conn, name)
    if group is None:
        raise _unknown(name)
    return group


def _create(conn: Connection, group: Group) -> None:
    people.create_group(conn, group=group)
    if group.name != DEFAULT_GROUP and has_jobs(conn, group=group.name):
        raise Conflict(
            f"Jobs of an earlier group {group.name} are on record, and members of the new one would see them",
            field="name",
            hint="Choose another name.",
        )


def _change(conn: Connection, name: str, change: GroupChange) -> Group:
    before = _need(conn, name)
    after = replace(
        before,
        description=before.description if isinstance(change.description, Unset) else change.description,
        quota=before.quota if isinstance(change.quota, Unset) else change.quota,
        user_quota=before.user_quota if isinstance(change.user_quota, Unset) else change.user_quota,
        time_limit=before.time_limit if isinstance(change.time_limit, Unset) else change.time_limit,
    )
    people.update_group(conn, group=after)
    return after if isinstance(change.extension, Unset) else _extend(conn, after, change.extension, change)


def _extend(conn: Connection, group: Group, given: Mapping[str, Any], change: GroupChange) -> Group:
    extension = merge(group.extension, given, replace=change.replace_extension)
    check_extension(extension)
    people.set_group_extension(conn, group.name, extension)
    return replace(group, extension=extension)


def _delete(conn: Connection, name: str) -> None:
    _need(conn, name)
    if has_unfinished(conn, group=name):
        raise Conflict(f"{name} has jobs that are not finished", hint="Stop them first.")
    people.delete_group(conn, name)


def _set_member(conn: Connection, name: str, user: str, admin: bool) -> Group:
    people.set_member(conn, name, user, admin=admin)
    return _need(conn, name)


def _remove_member(conn: Connection, name: str, user: str) -> Group:
    group = _need(conn, name)
    if not people.remove_member(conn, name, user):
        raise NotFound(f"{user[:100]} is not a member of {name}")
    return replace(group, members={member: role for member, role in group.members.items() if member != user})
