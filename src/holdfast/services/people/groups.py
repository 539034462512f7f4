"""Groups of users that share a queue and a quota."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from enum import Enum
from typing import Any

from sqlalchemy import Connection

from holdfast.core.access import Actor, Permission, has_permission
from holdfast.core.audit import AuditAction, AuditKind
from holdfast.core.errors import Conflict, Forbidden, NotFound
from holdfast.core.job import DEFAULT_GROUP, Hold
from holdfast.core.messages import msg
from holdfast.core.records import Group, Mlflow
from holdfast.core.scheduling.placement import Quota
from holdfast.engines.engine_set import EngineSet
from holdfast.jobspec.holds import format_hold
from holdfast.shared_folders import SharedFolders
from holdfast.store import people
from holdfast.store import schedules as schedule_rows

from ..audit import AuditedStore, AuditEntry, collect_set_fields
from ..control import Control
from ..errors import Unavailable
from ..name_suggestions import build_group_not_found_error, build_user_not_found_error, check_engine
from ..permissions import require_admin
from ..unfinished_jobs import has_jobs, has_unfinished_jobs
from .extensions import check_extension, merge_extension
from .group_rules import (
    check_group,
    check_group_name,
    check_group_path,
    check_mlflow,
    check_quotas,
    mask_mlflow,
    normalize_group,
)

ADMINS_ONLY_MESSAGE = msg("Only admins can manage groups")


class Unset(Enum):
    """Marks a field that is not set, unlike None."""

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
    engine: str | Unset = UNSET
    slurm: Mapping[str, str] | Unset = UNSET  # replaces all options
    extension: Mapping[str, Any] | Unset = UNSET  # merged key by key
    replace_extension: bool = False


class Groups:
    def __init__(
        self,
        store: AuditedStore,
        engine: EngineSet,
        control: Control,
        shared: SharedFolders,
        *,
        forget: Sequence[Callable[[], None]],
    ) -> None:
        self._engine = engine
        self._store = store
        self._control = control
        self._shared = shared
        self._create_lock = asyncio.Lock()  # so that files of a new group are not taken for an earlier group's
        self._cache_invalidators = forget  # caches of groups to invalidate

    async def list(self, actor: Actor) -> list[Group]:
        """Return the groups that the actor can see."""
        groups = await self._store.read(people.list_groups)
        return [group for group in groups if _can_see_group(actor, group.name)]

    async def get(self, actor: Actor, name: str) -> Group:
        group = await self._store.read(people.get_group, name) if _can_see_group(actor, name) else None
        if group is None:
            raise await self._build_group_not_found_error(actor, name)
        return group

    async def create(self, actor: Actor, group: Group) -> Group:
        require_admin(actor, ADMINS_ONLY_MESSAGE)
        check_group_name(group.name)
        group = normalize_group(group)
        check_group(group)
        check_quotas(group)
        check_engine(group.engine, self._engine.names, is_group=True)
        group = replace(group, extension=merge_extension({}, group.extension, replace=True))
        check_extension(group.extension)
        async with self._create_lock:
            if await self._store.read(_is_unused_name, group.name):
                await asyncio.to_thread(self._move_old_files, group.name)
            detail = _summarize_group_change(group)
            entry = AuditEntry(actor.name, AuditKind.GROUP, AuditAction.CREATED, group.name, detail)
            await self._store.write(entry, _insert_group, group)
        await self._publish_change()
        return group

    def _move_old_files(self, name: str) -> None:
        try:
            self._shared.archive_group(name)
        except OSError as error:
            raise Unavailable(
                msg("The files of a deleted group {name} could not be moved: {error}", name=name, error=error.strerror),
                hint=msg("Move them manually."),
            ) from error

    async def change(self, actor: Actor, name: str, change: GroupChange) -> Group:
        _check_can_change(actor, name, change)
        if not isinstance(change.engine, Unset):
            check_engine(change.engine, self._engine.names, is_group=True)
        if not isinstance(change.extension, Unset):
            check_extension(merge_extension({}, change.extension, replace=True))  # early, to save writer time
        entry = AuditEntry(actor.name, AuditKind.GROUP, AuditAction.CHANGED, name, _summarize_group_change(change))
        group = await self._store.write(entry, _update_group, name, change)
        await self._publish_change()
        return group

    async def update_extension(
        self, actor: Actor, name: str, changes: Mapping[str, Any], *, replace: bool = False
    ) -> Group:
        return await self.change(actor, name, GroupChange(extension=changes, replace_extension=replace))

    async def get_mlflow(self, actor: Actor, name: str) -> Mlflow | None:
        """Return the MLflow settings, for members; values of variables are masked except for the group's admins."""
        if not (actor.admin or name in actor.groups):
            raise await self._build_group_not_found_error(actor, name)
        group, found = await self._store.read(_load_mlflow, name)
        if group is None:
            raise await self._build_group_not_found_error(actor, name)
        return found if found is None or has_permission(actor, Permission.MANAGE_GROUP, name) else mask_mlflow(found)

    async def set_mlflow(self, actor: Actor, name: str, mlflow: Mlflow | None) -> None:
        """Set MLflow for jobs that start from now on; for the group's admins."""
        await self._require_group_admin(actor, name, msg("its MLflow"))
        if mlflow is not None:
            check_mlflow(mlflow)
        detail = {"mlflow": mlflow.tracking_uri if mlflow else None}
        entry = AuditEntry(actor.name, AuditKind.GROUP, AuditAction.CHANGED, name, detail)
        await self._store.write(entry, people.set_group_mlflow, name, mlflow)

    async def delete(self, actor: Actor, name: str) -> None:
        require_admin(actor, ADMINS_ONLY_MESSAGE)
        if name == DEFAULT_GROUP:
            raise Conflict(msg("The group {default_group} cannot be deleted", default_group=DEFAULT_GROUP))
        await self._store.write(AuditEntry(actor.name, AuditKind.GROUP, AuditAction.REMOVED, name), _delete_group, name)
        await self._publish_change()

    async def set_member(self, actor: Actor, name: str, user: str, *, admin: bool) -> Group:
        await self._require_group_admin(actor, name)
        entry = AuditEntry(actor.name, AuditKind.MEMBER, AuditAction.CHANGED, name, {"user": user, "admin": admin})
        group = await self._store.write(entry, _store_member, actor, name, user, admin)
        await self._publish_change()
        return group

    async def remove_member(self, actor: Actor, name: str, user: str) -> Group:
        await self._require_group_admin(actor, name)
        entry = AuditEntry(actor.name, AuditKind.MEMBER, AuditAction.REMOVED, name, {"user": user})
        group = await self._store.write(entry, _delete_member, name, user)
        await self._publish_change()
        return group

    async def _require_group_admin(self, actor: Actor, name: str, what: str = msg("its members")) -> None:
        if not _can_see_group(actor, name):
            raise await self._build_group_not_found_error(actor, name)
        if not has_permission(actor, Permission.MANAGE_GROUP, name):
            raise Forbidden(msg("Only admins of {name} can change {what}", name=name, what=what))

    async def _build_group_not_found_error(self, actor: Actor, name: str) -> NotFound:
        return build_group_not_found_error(name, [group.name for group in await self.list(actor)])

    async def _publish_change(self) -> None:
        for forget in self._cache_invalidators:
            forget()
        self._control.update_groups(list(await self._store.read(people.list_groups)))


def _summarize_group_change(change: Group | GroupChange) -> dict[str, Any]:
    detail = collect_set_fields(change)
    if "hold" in detail:
        detail["hold"] = format_hold(detail["hold"])
    return detail


def _can_see_group(actor: Actor, name: str) -> bool:
    return actor.admin or actor.can_read_all_jobs or name in actor.groups


def _check_can_change(actor: Actor, name: str, change: GroupChange) -> None:
    """Allow a group's admins to change its time limit and hold, and admins to change everything."""
    hint = None
    if has_permission(actor, Permission.MANAGE_GROUP, name):
        if collect_set_fields(change).keys() <= {"time_limit", "hold"}:
            return
        hint = msg("Admins of a group can only change its time limit and its hold.")
    require_admin(actor, ADMINS_ONLY_MESSAGE, hint)


# -- inside a write transaction


def _require_group(conn: Connection, name: str) -> Group:
    group = people.get_group(conn, name)
    if group is None:
        raise build_group_not_found_error(name, [known.name for known in people.list_groups(conn)])
    return group


def _load_mlflow(conn: Connection, name: str) -> tuple[Group | None, Mlflow | None]:
    return people.get_group(conn, name), people.load_group_mlflow(conn, name)


def _is_unused_name(conn: Connection, name: str) -> bool:
    """Return whether no group and no jobs have this name, so that its files are an earlier group's."""
    return people.get_group(conn, name) is None and not has_jobs(conn, group=name)


def _insert_group(conn: Connection, group: Group) -> None:
    people.create_group(conn, group=group)
    check_group_path(group.name, people.list_groups(conn))
    if group.name != DEFAULT_GROUP and has_jobs(conn, group=group.name):
        raise Conflict(
            msg(
                "Jobs of a deleted group {name} still exist, and members of the new group would see them",
                name=group.name,
            ),
            field="name",
            hint=msg("Choose another name."),
        )
    if group.name != DEFAULT_GROUP and schedule_rows.has_schedules(conn, group=group.name):
        raise Conflict(
            msg(
                "Schedules of a deleted group {name} still exist, and members of the new group would own them",
                name=group.name,
            ),
            field="name",
            hint=msg("Delete them first. Run `holdfast schedule ls` to list them."),
        )


def _update_group(conn: Connection, name: str, change: GroupChange) -> Group:
    changes = collect_set_fields(change)
    new_extension = changes.pop("extension", None)
    after = normalize_group(replace(_require_group(conn, name), **changes))
    check_group(after)
    if {"quota", "user_quota"} & changes.keys():  # values set before this rule stay valid
        check_quotas(after)
    people.update_group(conn, group=after)
    if new_extension is None:
        return after
    extension = merge_extension(after.extension, new_extension, replace=change.replace_extension)
    check_extension(extension)
    people.set_group_extension(conn, name, extension)
    return replace(after, extension=extension)


def _delete_group(conn: Connection, name: str) -> None:
    _require_group(conn, name)
    if has_unfinished_jobs(conn, group=name):
        raise Conflict(msg("{name} has unfinished jobs", name=name), hint=msg("Stop them first."))
    people.delete_group(conn, name)


def _store_member(conn: Connection, actor: Actor, name: str, user: str, admin: bool) -> Group:
    _require_group(conn, name)
    if people.get_user(conn, user) is None:
        sees_all = actor.admin or actor.can_read_all_jobs
        raise build_user_not_found_error(user, [known.name for known in people.list_users(conn)] if sees_all else [])
    people.set_group_member(conn, name, user, admin=admin)
    return _require_group(conn, name)


def _delete_member(conn: Connection, name: str, user: str) -> Group:
    group = _require_group(conn, name)
    if not people.remove_group_member(conn, name, user):
        raise NotFound(msg("{user} is not a member of {name}", user=user[:100], name=name))
    return replace(group, members={member: role for member, role in group.members.items() if member != user})
