"""Datasets: folders and variables with a name, and the groups they are granted to. Variables are sealed here."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any

from sqlalchemy import Connection, Row, delete, func, insert, select, update

from holdfast.core.errors import Conflict, NotFound
from holdfast.core.messages import msg, noun
from holdfast.core.records import Dataset
from holdfast.core.states import JobState

from .connections import vault_of
from .rows import maybe_instant, storable, to_json
from .tables import dataset_groups, datasets, groups, jobs

_WITH_TASKS = [state.value for state in JobState if not state.final and state is not JobState.PENDING]


def create_dataset(conn: Connection, *, dataset: Dataset, variables: Mapping[str, str] | None = None) -> None:
    """With its grants; Conflict when the name is taken, NotFound when a group is missing."""
    if get_dataset(conn, dataset.name) is not None:
        raise Conflict(msg("There is a dataset {name} already", name=dataset.name), field="name")
    conn.execute(insert(datasets), {"name": dataset.name, **_values(dataset)})
    for group in dataset.groups:
        grant(conn, dataset.name, group, writable=group in dataset.writable_groups)
    if variables is not None:
        set_variables(conn, dataset.name, variables)


def get_dataset(conn: Connection, name: str) -> Dataset | None:
    row = conn.execute(select(datasets).where(datasets.c.name == storable(name))).one_or_none()
    if row is None:
        return None
    granted = conn.execute(
        select(dataset_groups.c.group_name, dataset_groups.c.writable).where(dataset_groups.c.dataset_name == row.name)
    )
    return _dataset_of(row, {each.group_name: each.writable for each in granted})


def list_datasets(conn: Connection) -> list[Dataset]:
    """By name."""
    granted: dict[str, dict[str, bool]] = {}
    for name, group, writable in conn.execute(select(dataset_groups)):
        granted.setdefault(name, {})[group] = writable
    rows = conn.execute(select(datasets).order_by(datasets.c.name))
    return [_dataset_of(row, granted.get(row.name, {})) for row in rows]


def set_variables(conn: Connection, name: str, variables: Mapping[str, str]) -> None:
    """All of them, in place of what there was; they may hold passwords, so they are sealed and bound to the name."""
    sealed = vault_of(conn).seal(to_json(dict(variables)).encode(), about=_about(name))
    if not conn.execute(update(datasets).where(datasets.c.name == name).values(variables=sealed)).rowcount:
        raise _no("dataset", name)


def variables_of(conn: Connection, names: Iterable[str]) -> dict[str, dict[str, str]]:
    """Name -> its variables, for those that have any."""
    asked = [storable(name) for name in names]
    there = datasets.c.name.in_(asked) & datasets.c.variables.is_not(None)
    rows = conn.execute(select(datasets.c.name, datasets.c.variables).where(there).order_by(datasets.c.name)).all()
    return {row.name: json.loads(vault_of(conn).unseal(bytes(row.variables), about=_about(row.name))) for row in rows}


def update_dataset(conn: Connection, *, dataset: Dataset) -> None:
    """All but its grants: they come and go one by one."""
    changed = conn.execute(update(datasets).where(datasets.c.name == dataset.name).values(_values(dataset)))
    if not changed.rowcount:
        raise _no("dataset", dataset.name)


def delete_dataset(conn: Connection, name: str) -> None:
    """With its grants. The folder stays."""
    if not conn.execute(delete(datasets).where(datasets.c.name == storable(name))).rowcount:
        raise _no("dataset", name)


def grant(conn: Connection, name: str, group: str, *, writable: bool = False) -> None:
    """Harmless when it was granted before; NotFound when there is no such group."""
    if conn.scalar(select(groups.c.name).where(groups.c.name == storable(group))) is None:
        raise _no("group", group)
    revoke(conn, name, group)
    conn.execute(insert(dataset_groups), {"dataset_name": name, "group_name": group, "writable": writable})


def revoke(conn: Connection, name: str, group: str) -> bool:
    """Whether there was anything to take back."""
    here = (dataset_groups.c.dataset_name == storable(name)) & (dataset_groups.c.group_name == storable(group))
    return bool(conn.execute(delete(dataset_groups).where(here)).rowcount)


def oldest_running(conn: Connection) -> datetime | None:
    """Since when, at most, a running job may hold what it was given at its start; None: nothing runs."""
    began = func.coalesce(jobs.c.attempt_started_at, jobs.c.started_at, jobs.c.submitted_at)
    return maybe_instant(conn.scalar(select(func.min(began)).where(jobs.c.state.in_(_WITH_TASKS))))


def _dataset_of(row: Row[Any], granted: Mapping[str, bool]) -> Dataset:
    return Dataset(
        name=row.name,
        path=row.path,
        display_name=row.display_name,
        description=row.description,
        read_only=row.read_only,
        everyone=row.everyone,
        groups=tuple(sorted(granted)),
        writable_groups=tuple(sorted(group for group, writable in granted.items() if writable)),
        per_user=row.per_user,
        default=row.is_default,
        kind=row.kind,
        data=json.loads(row.data_json),
    )


def _values(dataset: Dataset) -> dict[str, Any]:
    return {
        "path": dataset.path,
        "display_name": storable(dataset.display_name),
        "description": storable(dataset.description),
        "read_only": dataset.read_only,
        "everyone": dataset.everyone,
        "per_user": dataset.per_user,
        "is_default": dataset.default,
        "kind": dataset.kind,
        "data_json": to_json(dict(dataset.data)),
    }


def _about(name: str) -> str:
    return msg("the dataset {name}", name=name)


def _no(kind: str, name: str) -> NotFound:
    return NotFound(msg("There is no {kind} {name}", kind=noun(kind), name=name))
