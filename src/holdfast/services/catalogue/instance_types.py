"""Instance types: the sizes that admins put up, and who may use them.

The settings' sizes are put into the database at the first start; from then on the database tells.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from sqlalchemy import Connection

from holdfast.core.access import Actor, Verb, may
from holdfast.core.audit import Act, AuditKind
from holdfast.core.catalogue import InstanceType
from holdfast.core.errors import Forbidden, NotFound
from holdfast.core.messages import msg
from holdfast.settings import Settings
from holdfast.store import instance_types as rows

from ..audit import AuditedStore, AuditEntry, given
from ..cached_value import Remembered
from ..name_suggestions import nearest, need_group
from ..names import check_dns_name
from ..people.groups import UNSET, Unset
from ..refusals import NoInstanceType
from .instance_type_rules import check_instance_type, tidy


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
    everyone: bool | Unset = UNSET
    groups: tuple[str, ...] | Unset = UNSET  # these and no others


class InstanceTypes:
    def __init__(self, store: AuditedStore, settings: Settings) -> None:
        self._store = store
        self._settings = settings
        self._known = Remembered(self._read)

    async def seed(self) -> None:
        """At the first start: the sizes that the settings name."""
        await self._known.changed_by(self._store.write_quietly(rows.seed_instance_types, seeded_types(self._settings)))
        await self.known()  # the first job need not wait for it

    # -- looking

    async def usable(self, actor: Actor, group: str) -> list[InstanceType]:
        """What jobs of a group can name. None, of a group one is not in."""
        if not may(actor, Verb.SUBMIT_JOB, group):
            return []
        return [type for type in (await self.known()).values() if is_for(type, group)]

    async def list(self, actor: Actor) -> list[InstanceType]:
        """By name: all, for admins; everyone's and those of their groups, for others."""
        return [type for type in (await self.known()).values() if may_see(actor, type)]

    async def get(self, actor: Actor, name: str) -> InstanceType:
        found = (await self.known()).get(name)
        if found is None or not may_see(actor, found):
            raise unknown(name, await self.list(actor))
        return found

    async def known(self) -> Mapping[str, InstanceType]:
        """All, by name; for the platform's own use."""
        return await self._known.get()

    def forget(self) -> None:
        """Groups changed, and with them who may use what."""
        self._known.forget()

    # -- changing

    async def create(self, actor: Actor, type: InstanceType) -> InstanceType:
        _need_admin(actor)
        check_dns_name(type.name, msg("an instance type"))
        made = tidy(replace(type, brought=False))
        check_instance_type(made)
        deed = _deed(actor, Act.CREATED, made.name, given(made))
        await self._known.changed_by(self._store.write(deed, rows.create_instance_type, type=made))
        return made

    async def change(self, actor: Actor, name: str, change: InstanceTypeChange) -> InstanceType:
        """Jobs that were submitted before keep the size they had; their reruns get the new one."""
        _need_admin(actor)
        deed = _deed(actor, Act.CHANGED, name, given(change))
        return await self._known.changed_by(self._store.write(deed, _change, name, change))

    async def delete(self, actor: Actor, name: str) -> None:
        """Jobs that were submitted before stay as they are, and cannot be rerun."""
        _need_admin(actor)
        deed = _deed(actor, Act.REMOVED, name)
        await self._known.changed_by(self._store.write(deed, _delete, name))

    async def grant(self, actor: Actor, name: str, group: str) -> InstanceType:
        _need_admin(actor)
        deed = _deed(actor, Act.GRANTED, name, {"group": group})
        return await self._known.changed_by(self._store.write(deed, _grant, name, group))

    async def revoke(self, actor: Actor, name: str, group: str) -> InstanceType:
        _need_admin(actor)
        deed = _deed(actor, Act.REVOKED, name, {"group": group})
        return await self._known.changed_by(self._store.write(deed, _revoke, name, group))

    async def _read(self) -> Mapping[str, InstanceType]:
        return {type.name: type for type in await self._store.read(rows.list_instance_types)}


def _deed(actor: Actor, act: Act, name: str, detail: Mapping[str, Any] | None = None) -> AuditEntry:
    return AuditEntry(actor=actor.name, kind=AuditKind.INSTANCE_TYPE, act=act, subject=name, detail=detail or {})


def seeded_types(settings: Settings) -> list[InstanceType]:
    """For everyone, as the settings had no groups. Those that come with us know nothing of a site's machines."""
    brought = "instance_types" not in settings.jobs.model_fields_set
    sizes = settings.jobs.instance_types.items()
    return [InstanceType(name=name, **size.model_dump(), brought=brought) for name, size in sizes]


def is_for(type: InstanceType, group: str) -> bool:
    return type.everyone or group in type.groups


def may_see(actor: Actor, type: InstanceType) -> bool:
    return actor.admin or type.everyone or any(group in actor.groups for group in type.groups)


def unknown(name: str, known: Iterable[InstanceType]) -> NoInstanceType:
    hint = nearest(name, [type.name for type in known], "holdfast instance-type ls")
    return NoInstanceType(
        msg("There is no instance type {name}", name=name[:100]), name=name, field="instance_type", hint=hint
    )


def _need_admin(actor: Actor) -> None:
    if not may(actor, Verb.MANAGE_PLACE):
        raise Forbidden(msg("Only admins manage instance types"))


# -- within one write each


def _need(conn: Connection, name: str) -> InstanceType:
    found = rows.get_instance_type(conn, name)
    if found is None:
        raise unknown(name, rows.list_instance_types(conn))
    return found


def _change(conn: Connection, name: str, change: InstanceTypeChange) -> InstanceType:
    given = {key: value for key in change.__slots__ if not isinstance(value := getattr(change, key), Unset)}
    after = tidy(replace(_need(conn, name), **given, brought=False))
    check_instance_type(after)
    rows.update_instance_type(conn, type=after)
    return after


def _delete(conn: Connection, name: str) -> None:
    _need(conn, name)
    rows.delete_instance_type(conn, name)


def _grant(conn: Connection, name: str, group: str) -> InstanceType:
    type = _need(conn, name)
    need_group(conn, group, "groups")
    rows.GRANTS.grant(conn, type.name, group)
    return _need(conn, name)


def _revoke(conn: Connection, name: str, group: str) -> InstanceType:
    _need(conn, name)
    if not rows.GRANTS.revoke(conn, name, group):
        raise NotFound(msg("The instance type {name} is not granted to {group}", name=name, group=group[:100]))
    return _need(conn, name)
