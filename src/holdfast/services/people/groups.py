"""Groups: who shares a queue and a quota."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from enum import Enum
from typing import Any

from sqlalchemy import Connection

from holdfast.core.access import Actor, Verb, may
from holdfast.core.audit import Act, AuditKind
from holdfast.core.errors import Conflict, Forbidden, NotFound
from holdfast.core.job import DEFAULT_GROUP, Hold
from holdfast.core.messages import msg
from holdfast.core.records import Group, Mlflow
from holdfast.core.scheduling.placement import Quota
from holdfast.jobspec.holds import hold_word
from holdfast.shared_folders import SharedFolders
from holdfast.store import people
from holdfast.store import schedules as schedule_rows

from ..audit import AuditedStore, AuditEntry, given
from ..control import Control
from ..name_suggestions import no_group, no_user
from ..refusals import Unavailable
from ..unfinished_jobs import has_jobs, has_unfinished
from .extensions import check_extension, merge
from .group_rules import check_group, check_group_name, check_mlflow, check_path, check_quotas, mask_mlflow


class Unset(Enum):
    """Not mentioned, as against set to nothing."""

    UNSET = "unset"


UNSET = Unset.UNSET


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupChange:
    display_name: str | Unset = UNSET
    description: str | Unset = UNSET
    quota: Quota | Unset = UNSET
    user_quota: Quota | Unset = UNSET
    time_limit: timedelta | Unset | None = UNSET
    shared_volume: bool | Unset = UNSET
    volume_capacity: int | Unset | None = UNSET
    launch_only: bool | Unset = UNSET
    home_symlink: bool | Unset = UNSET
    hold: Hold | Unset | None = UNSET
    extension: Mapping[str, Any] | Unset = UNSET  # merged key by key
    replace_extension: bool = False


class Groups:
    def __init__(
        self, store: AuditedStore, control: Control, shared: SharedFolders, *, forget: Sequence[Callable[[], None]]
    ) -> None:
        self._store = store
        self._control = control
        self._shared = shared
        self._creating = asyncio.Lock()  # so that no two ever take the files of one for those of an earlier group
        self._forget = forget  # what others remember of groups

    async def list(self, actor: Actor) -> list[Group]:
        """All, for admins and where everybody reads everything; one's own, for others."""
        groups = await self._store.read(people.list_groups)
        return [group for group in groups if _may_see(actor, group.name)]

    async def get(self, actor: Actor, name: str) -> Group:
        group = await self._store.read(people.get_group, name) if _may_see(actor, name) else None
        if group is None:
            raise await self._unknown(actor, name)
        return group

    async def create(self, actor: Actor, group: Group) -> Group:
        _need_admin(actor)
        check_group_name(group.name)
        check_group(group)
        check_quotas(group)
        group = replace(group, extension=merge({}, group.extension, replace=True))
        check_extension(group.extension)
        async with self._creating:
            if await self._store.read(_is_new, group.name):
                await asyncio.to_thread(self._set_aside, group.name)
            await self._store.write(_deed(actor, Act.CREATED, group.name, _told(group)), _create, group)
        await self._changed()
        return group

    def _set_aside(self, name: str) -> None:
        try:
            self._shared.set_aside(name)
        except OSError as error:
            raise Unavailable(
                msg(
                    "The files of an earlier group {name} are in the way: {strerror}",
                    name=name,
                    strerror=error.strerror,
                ),
                hint=msg("Move them away by hand."),
            ) from error

    async def change(self, actor: Actor, name: str, change: GroupChange) -> Group:
        _need_changer(actor, name, change)
        if not isinstance(change.extension, Unset):
            check_extension(merge({}, change.extension, replace=True))  # before it holds up the writer; and again there
        group = await self._store.write(_deed(actor, Act.CHANGED, name, _told(change)), _change, name, change)
        await self._changed()
        return group

    async def extend(self, actor: Actor, name: str, changes: Mapping[str, Any], *, replace: bool = False) -> Group:
        """What clients keep with a group: merged key by key, or replaced."""
        return await self.change(actor, name, GroupChange(extension=changes, replace_extension=replace))

    async def mlflow(self, actor: Actor, name: str) -> Mlflow | None:
        """For members. The values of variables are told to admins of the group alone; others see a mask."""
        if not (actor.admin or name in actor.groups):
            raise await self._unknown(actor, name)
        group, found = await self._store.read(_mlflow, name)
        if group is None:
            raise await self._unknown(actor, name)
        return found if found is None or may(actor, Verb.MANAGE_GROUP, name) else mask_mlflow(found)

    async def set_mlflow(self, actor: Actor, name: str, mlflow: Mlflow | None) -> None:
        """By an admin of the group; for jobs that start from now on."""
        await self._need_group_admin(actor, name, msg("its MLflow"))
        if mlflow is not None:
            check_mlflow(mlflow)
        told = {"mlflow": mlflow.tracking_uri if mlflow else None}
        await self._store.write(_deed(actor, Act.CHANGED, name, told), people.set_group_mlflow, name, mlflow)

    async def delete(self, actor: Actor, name: str) -> None:
        _need_admin(actor)
        if name == DEFAULT_GROUP:
            raise Conflict(msg("The group {default_group} cannot be removed", default_group=DEFAULT_GROUP))
        await self._store.write(_deed(actor, Act.REMOVED, name), _delete, name)
        await self._changed()

    async def set_member(self, actor: Actor, name: str, user: str, *, admin: bool) -> Group:
        await self._need_group_admin(actor, name)
        group = await self._store.write(
            _membership(actor, Act.CHANGED, name, {"user": user, "admin": admin}), _set_member, actor, name, user, admin
        )
        await self._changed()
        return group

    async def remove_member(self, actor: Actor, name: str, user: str) -> Group:
        await self._need_group_admin(actor, name)
        group = await self._store.write(
            _membership(actor, Act.REMOVED, name, {"user": user}), _remove_member, name, user
        )
        await self._changed()
        return group

    async def _need_group_admin(self, actor: Actor, name: str, what: str = msg("its members")) -> None:
        if not _may_see(actor, name):
            raise await self._unknown(actor, name)
        if not may(actor, Verb.MANAGE_GROUP, name):
            raise Forbidden(msg("Only admins of {name} change {what}", name=name, what=what))

    async def _unknown(self, actor: Actor, name: str) -> NotFound:
        return no_group(name, [group.name for group in await self.list(actor)])

    async def _changed(self) -> None:
        for forget in self._forget:
            forget()
        self._control.groups_changed(list(await self._store.read(people.list_groups)))


def _told(change: Group | GroupChange) -> dict[str, Any]:
    told = given(change)
    if "hold" in told and not isinstance(change.hold, Unset):
        told["hold"] = hold_word(change.hold)
    return told


def _deed(actor: Actor, act: Act, name: str, detail: Mapping[str, Any] | None = None) -> AuditEntry:
    return AuditEntry(actor=actor.name, kind=AuditKind.GROUP, act=act, subject=name, detail=detail or {})


def _membership(actor: Actor, act: Act, group: str, detail: Mapping[str, Any]) -> AuditEntry:
    return AuditEntry(actor=actor.name, kind=AuditKind.MEMBER, act=act, subject=group, detail=detail)


def _may_see(actor: Actor, name: str) -> bool:
    return actor.admin or actor.reads_all or name in actor.groups


def _need_admin(actor: Actor) -> None:
    if not may(actor, Verb.MANAGE_PLACE):
        raise Forbidden(msg("Only admins manage groups"))


def _need_changer(actor: Actor, name: str, change: GroupChange) -> None:
    """Admins of a group change how long its jobs may run, and whether failed ones are held; the rest is for admins."""
    given = {key for key in change.__slots__ if not isinstance(getattr(change, key), Unset)} - {"replace_extension"}
    if given <= {"time_limit", "hold"} and may(actor, Verb.MANAGE_GROUP, name):
        return
    if not may(actor, Verb.MANAGE_PLACE):
        hint = (
            msg("Admins of a group may change its time limit and its hold.")
            if may(actor, Verb.MANAGE_GROUP, name)
            else None
        )
        raise Forbidden(msg("Only admins manage groups"), hint=hint)


# -- within one write each

_FIELDS = tuple(key for key in GroupChange.__slots__ if key not in ("extension", "replace_extension"))


def _need(conn: Connection, name: str) -> Group:
    group = people.get_group(conn, name)
    if group is None:
        raise no_group(name, [known.name for known in people.list_groups(conn)])
    return group


def _mlflow(conn: Connection, name: str) -> tuple[Group | None, Mlflow | None]:
    return people.get_group(conn, name), people.group_mlflow(conn, name)


def _is_new(conn: Connection, name: str) -> bool:
    """Nothing stands in its way: files of that name are an earlier group's."""
    return people.get_group(conn, name) is None and not has_jobs(conn, group=name)


def _create(conn: Connection, group: Group) -> None:
    people.create_group(conn, group=group)
    check_path(group.name, people.list_groups(conn))
    if group.name != DEFAULT_GROUP and has_jobs(conn, group=group.name):
        raise Conflict(
            msg(
                "Jobs of an earlier group {name} are on record, and members of the new one would see them",
                name=group.name,
            ),
            field="name",
            hint=msg("Choose another name."),
        )
    if group.name != DEFAULT_GROUP and schedule_rows.any_of(conn, group=group.name):
        raise Conflict(
            msg(
                "Schedules of an earlier group {name} are on record, and members of the new one would have them",
                name=group.name,
            ),
            field="name",
            hint=msg("Remove them first: `holdfast schedule ls` lists them."),
        )


def _change(conn: Connection, name: str, change: GroupChange) -> Group:
    given = {key: value for key in _FIELDS if not isinstance(value := getattr(change, key), Unset)}
    after = replace(_need(conn, name), **given)
    check_group(after)
    if {"quota", "user_quota"} & given.keys():  # what was set before this rule may stay
        check_quotas(after)
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
        raise Conflict(msg("{name} has jobs that are not finished", name=name), hint=msg("Stop them first."))
    people.delete_group(conn, name)


def _set_member(conn: Connection, actor: Actor, name: str, user: str, admin: bool) -> Group:
    _need(conn, name)
    if people.get_user(conn, user) is None:
        sees_all = actor.admin or actor.reads_all
        raise no_user(user, [known.name for known in people.list_users(conn)] if sees_all else [])
    people.set_member(conn, name, user, admin=admin)
    return _need(conn, name)


def _remove_member(conn: Connection, name: str, user: str) -> Group:
    group = _need(conn, name)
    if not people.remove_member(conn, name, user):
        raise NotFound(msg("{user} is not a member of {name}", user=user[:100], name=name))
    return replace(group, members={member: role for member, role in group.members.items() if member != user})
