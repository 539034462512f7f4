"""Instance types: named sizes, and the groups they are for."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

from sqlalchemy import Connection, Row, delete, insert, select, update

from holdfast.core.catalogue import InstanceType
from holdfast.core.errors import Conflict, NotFound
from holdfast.core.messages import msg

from . import seeds
from .grants import Grants
from .rows import storable, to_json
from .tables import instance_type_groups, instance_types

GRANTS = Grants(instance_type_groups)


def create_instance_type(conn: Connection, *, type: InstanceType) -> None:
    """With its grants; Conflict when the name is taken, NotFound when a group is missing."""
    if get_instance_type(conn, type.name) is not None:
        raise Conflict(msg("There is an instance type {name} already", name=type.name), field="name")
    conn.execute(insert(instance_types), {"name": type.name, **_values(type)})
    GRANTS.set(conn, type.name, type.groups)


def seed_instance_types(conn: Connection, types: Iterable[InstanceType]) -> None:
    """At the first start only."""
    if seeds.due(conn, instance_types):
        for type in types:
            create_instance_type(conn, type=type)


def get_instance_type(conn: Connection, name: str) -> InstanceType | None:
    row = conn.execute(select(instance_types).where(instance_types.c.name == storable(name))).one_or_none()
    return None if row is None else _type_of(row, GRANTS.of(conn, row.name))


def list_instance_types(conn: Connection) -> list[InstanceType]:
    """By name."""
    granted = GRANTS.all(conn)
    rows = conn.execute(select(instance_types).order_by(instance_types.c.name))
    return [_type_of(row, granted.get(row.name, ())) for row in rows]


def update_instance_type(conn: Connection, *, type: InstanceType) -> None:
    """All of it, with its grants."""
    here = instance_types.c.name == storable(type.name)
    if not conn.execute(update(instance_types).where(here).values(_values(type))).rowcount:
        raise _no(type.name)
    GRANTS.set(conn, type.name, type.groups)


def delete_instance_type(conn: Connection, name: str) -> None:
    """With its grants."""
    if not conn.execute(delete(instance_types).where(instance_types.c.name == storable(name))).rowcount:
        raise _no(name)


def _type_of(row: Row[Any], granted: Iterable[str]) -> InstanceType:
    return InstanceType(
        name=row.name,
        display_name=row.display_name,
        description=row.description,
        cpu=row.cpu,
        memory=row.memory,
        gpu=row.gpu,
        cpu_request=row.cpu_request,
        memory_request=row.memory_request,
        gpu_resource=row.gpu_resource,
        tolerations=tuple(json.loads(row.tolerations_json)),
        node_selector=json.loads(row.node_selector_json),
        everyone=row.everyone,
        groups=tuple(granted),
        brought=row.brought,
    )


def _values(type: InstanceType) -> dict[str, Any]:
    return {
        "display_name": storable(type.display_name),
        "description": storable(type.description),
        "cpu": type.cpu,
        "memory": type.memory,
        "gpu": type.gpu,
        "cpu_request": type.cpu_request,
        "memory_request": type.memory_request,
        "gpu_resource": storable(type.gpu_resource),
        "tolerations_json": to_json([dict(each) for each in type.tolerations]),
        "node_selector_json": to_json(dict(type.node_selector)),
        "everyone": type.everyone,
        "brought": type.brought,
    }


def _no(name: str) -> NotFound:
    return NotFound(msg("There is no instance type {name}", name=name[:100]))
