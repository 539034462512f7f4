"""Instance types: sizes defined by admins and granted to groups.

The sizes of the settings are copied into the database at the first start; from then on the database is used.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from sqlalchemy import Connection

from holdfast.core.access import Actor, Permission, has_permission
from holdfast.core.audit import AuditAction, AuditKind
from holdfast.core.catalogue import InstanceType
from holdfast.core.errors import NotFound
from holdfast.core.messages import msg
from holdfast.settings import Settings
from holdfast.store import instance_types as rows

from ..audit import AuditedStore, AuditEntry, collect_set_fields
from ..cached_value import CachedValue
from ..errors import InstanceTypeNotFound
from ..name_suggestions import require_group, suggest_name
from ..names import check_dns_name
from ..people.groups import UNSET, Unset
from ..permissions import require_admin
from .instance_type_rules import check_instance_type, normalize_instance_type

ADMINS_ONLY_MESSAGE = msg("Only admins can manage instance types")


@dataclass(frozen=True, slots=True, kw_only=True)
class InstanceTypeChange:
    display_name: str | Unset = UNSET
    description: str | Unset = UNSET
    cpu: float | Unset = UNSET
    memory: int | Unset = UNSET
    gpu: int | Unset = UNSET
    cpu_request: float | Unset | None = UNSET
    memory_request: int | Unset | None = UNSET
    gpu_resource: str | Unset = UNSET
    tolerations: tuple[Mapping[str, Any], ...] | Unset = UNSET
    node_selector: Mapping[str, str] | Unset = UNSET
    slurm: Mapping[str, str] | Unset = UNSET  # replaces all options
    everyone: bool | Unset = UNSET
    groups: tuple[str, ...] | Unset = UNSET  # replaces all grants


class InstanceTypes:
    def __init__(self, store: AuditedStore, settings: Settings) -> None:
        self._store = store
        self._settings = settings
        self._cache = CachedValue(self._load_types)

    async def seed_types(self) -> None:
        """Copy the sizes of the settings at the first start."""
        await self._cache.invalidate_after(
            self._store.write_unaudited(rows.seed_instance_types, build_seeded_types(self._settings))
        )
        await self.load_all()  # the first job need not wait for it

    # -- reading

    async def list_usable_types(self, actor: Actor, group: str) -> list[InstanceType]:
        """Return the types that jobs of a group can use; none if the actor is not a member."""
        if not has_permission(actor, Permission.SUBMIT_JOB, group):
            return []
        return [type for type in (await self.load_all()).values() if is_type_available(type, group)]

    async def list(self, actor: Actor) -> list[InstanceType]:
        """Return the types that the actor can see, by name."""
        return [type for type in (await self.load_all()).values() if can_see_type(actor, type)]

    async def get(self, actor: Actor, name: str) -> InstanceType:
        found = (await self.load_all()).get(name)
        if found is None or not can_see_type(actor, found):
            raise build_type_not_found_error(name, await self.list(actor))
        return found

    async def load_all(self) -> Mapping[str, InstanceType]:
        """Return all types by name, without a permission check."""
        return await self._cache.get()

    def invalidate(self) -> None:
        """Clear the cache after a change to groups, which changes the grants."""
        self._cache.invalidate()

    # -- writing

    async def create(self, actor: Actor, type: InstanceType) -> InstanceType:
        require_admin(actor, ADMINS_ONLY_MESSAGE)
        check_dns_name(type.name, msg("an instance type"))
        made = normalize_instance_type(replace(type, brought=False))
        check_instance_type(made)
        entry = AuditEntry(
            actor.name, AuditKind.INSTANCE_TYPE, AuditAction.CREATED, made.name, collect_set_fields(made)
        )
        await self._cache.invalidate_after(self._store.write(entry, rows.create_instance_type, made))
        return made

    async def change(self, actor: Actor, name: str, change: InstanceTypeChange) -> InstanceType:
        """Change a type. Jobs submitted earlier keep their size; their reruns get the new one."""
        require_admin(actor, ADMINS_ONLY_MESSAGE)
        entry = AuditEntry(actor.name, AuditKind.INSTANCE_TYPE, AuditAction.CHANGED, name, collect_set_fields(change))
        return await self._cache.invalidate_after(self._store.write(entry, _update_type, name, change))

    async def delete(self, actor: Actor, name: str) -> None:
        """Delete a type. Jobs submitted earlier are not changed and cannot be rerun."""
        require_admin(actor, ADMINS_ONLY_MESSAGE)
        entry = AuditEntry(actor.name, AuditKind.INSTANCE_TYPE, AuditAction.REMOVED, name)
        await self._cache.invalidate_after(self._store.write(entry, _delete_type, name))

    async def grant(self, actor: Actor, name: str, group: str) -> InstanceType:
        require_admin(actor, ADMINS_ONLY_MESSAGE)
        entry = AuditEntry(actor.name, AuditKind.INSTANCE_TYPE, AuditAction.GRANTED, name, {"group": group})
        return await self._cache.invalidate_after(self._store.write(entry, _grant_type, name, group))

    async def revoke(self, actor: Actor, name: str, group: str) -> InstanceType:
        require_admin(actor, ADMINS_ONLY_MESSAGE)
        entry = AuditEntry(actor.name, AuditKind.INSTANCE_TYPE, AuditAction.REVOKED, name, {"group": group})
        return await self._cache.invalidate_after(self._store.write(entry, _revoke_type, name, group))

    async def _load_types(self) -> Mapping[str, InstanceType]:
        return {type.name: type for type in await self._store.read(rows.list_instance_types)}


def build_seeded_types(settings: Settings) -> list[InstanceType]:
    """Build the types of the settings, granted to everyone. Defaults are marked: they do not match a site's nodes."""
    brought = "instance_types" not in settings.jobs.model_fields_set
    sizes = settings.jobs.instance_types.items()
    return [InstanceType(name=name, **size.model_dump(), brought=brought) for name, size in sizes]


def is_type_available(type: InstanceType, group: str) -> bool:
    return type.everyone or group in type.groups


def can_see_type(actor: Actor, type: InstanceType) -> bool:
    return actor.admin or type.everyone or any(group in actor.groups for group in type.groups)


def build_type_not_found_error(name: str, known: Iterable[InstanceType]) -> InstanceTypeNotFound:
    hint = suggest_name(name, [type.name for type in known], "holdfast instance-type ls")
    return InstanceTypeNotFound(
        msg("Instance type {name} not found", name=name[:100]), name=name, field="instance_type", hint=hint
    )


# -- inside a write transaction


def _require_type(conn: Connection, name: str) -> InstanceType:
    found = rows.get_instance_type(conn, name)
    if found is None:
        raise build_type_not_found_error(name, rows.list_instance_types(conn))
    return found


def _update_type(conn: Connection, name: str, change: InstanceTypeChange) -> InstanceType:
    after = normalize_instance_type(replace(_require_type(conn, name), **collect_set_fields(change), brought=False))
    check_instance_type(after)
    rows.update_instance_type(conn, after)
    return after


def _delete_type(conn: Connection, name: str) -> None:
    _require_type(conn, name)
    rows.delete_instance_type(conn, name)


def _grant_type(conn: Connection, name: str, group: str) -> InstanceType:
    type = _require_type(conn, name)
    require_group(conn, group, "groups")
    rows.GRANTS.grant(conn, type.name, group)
    return _require_type(conn, name)


def _revoke_type(conn: Connection, name: str, group: str) -> InstanceType:
    _require_type(conn, name)
    if not rows.GRANTS.revoke(conn, name, group):
        raise NotFound(msg("The instance type {name} is not granted to {group}", name=name, group=group[:100]))
    return _require_type(conn, name)
