"""Datasets: named folders and variables, and the groups they are granted to. Variables are sealed here."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any

from sqlalchemy import Connection, Row, delete, func, insert, select

from holdfast.core.errors import NotFound
from holdfast.core.messages import msg
from holdfast.core.records import Dataset
from holdfast.core.states import JobState

from .connections import get_vault
from .mapping import record_from_row, record_to_row
from .named_table import NamedTable
from .rows import from_optional_micros, make_storable, to_json
from .tables import dataset_groups, datasets, groups, jobs

_STATES_WITH_TASKS = [state.value for state in JobState if not state.final and state is not JobState.PENDING]


_DATASET_TABLE = NamedTable(
    datasets,
    in_use=lambda name: msg("Dataset {name} already exists", name=name),
    not_found=lambda name: NotFound(msg("Dataset {name} not found", name=name)),
)
delete_dataset = _DATASET_TABLE.delete_row  # with its grants; the folder is kept


def create_dataset(conn: Connection, *, dataset: Dataset, variables: Mapping[str, str] | None = None) -> None:
    """Create a dataset and its grants; Conflict if the name is in use, NotFound if a group does not exist."""
    _DATASET_TABLE.check_name_unused(conn, dataset.name)
    _DATASET_TABLE.insert_row(conn, record_to_row(dataset, datasets))
    for group in dataset.groups:
        insert_dataset_grant(conn, dataset.name, group, writable=group in dataset.writable_groups)
    if variables is not None:
        set_dataset_variables(conn, dataset.name, variables)


def get_dataset(conn: Connection, name: str) -> Dataset | None:
    row = _DATASET_TABLE.find_row(conn, name)
    if row is None:
        return None
    granted = conn.execute(
        select(dataset_groups.c.group_name, dataset_groups.c.writable).where(dataset_groups.c.dataset_name == row.name)
    )
    return _dataset_from_row(row, {each.group_name: each.writable for each in granted})


def list_datasets(conn: Connection) -> list[Dataset]:
    """Return all datasets, sorted by name."""
    granted: dict[str, dict[str, bool]] = {}
    for name, group, writable in conn.execute(select(dataset_groups)):
        granted.setdefault(name, {})[group] = writable
    return [_dataset_from_row(row, granted.get(row.name, {})) for row in _DATASET_TABLE.list_rows(conn)]


def set_dataset_variables(conn: Connection, name: str, variables: Mapping[str, str]) -> None:
    """Replace all variables. They may contain passwords, so they are sealed and bound to the name."""
    sealed = get_vault(conn).seal(to_json(dict(variables)).encode(), about=_build_seal_context(name))
    _DATASET_TABLE.update_row(conn, name, {"variables": sealed})


def load_dataset_variables(conn: Connection, names: Iterable[str]) -> dict[str, dict[str, str]]:
    """Map the name of each dataset that has variables to them."""
    asked = [make_storable(name) for name in names]
    there = datasets.c.name.in_(asked) & datasets.c.variables.is_not(None)
    rows = conn.execute(select(datasets.c.name, datasets.c.variables).where(there).order_by(datasets.c.name)).all()
    return {
        row.name: json.loads(get_vault(conn).unseal(bytes(row.variables), about=_build_seal_context(row.name)))
        for row in rows
    }


def update_dataset(conn: Connection, *, dataset: Dataset) -> None:
    """Update everything but the grants, which are changed one by one."""
    _DATASET_TABLE.update_row(conn, dataset.name, record_to_row(dataset, datasets))


def insert_dataset_grant(conn: Connection, name: str, group: str, *, writable: bool = False) -> None:
    """Grant a dataset to a group. Idempotent; NotFound if the group does not exist."""
    if conn.scalar(select(groups.c.name).where(groups.c.name == make_storable(group))) is None:
        raise NotFound(msg("Group {name} not found", name=group))
    delete_dataset_grant(conn, name, group)
    conn.execute(insert(dataset_groups), {"dataset_name": name, "group_name": group, "writable": writable})


def delete_dataset_grant(conn: Connection, name: str, group: str) -> bool:
    """Revoke a grant; return whether it existed."""
    here = (dataset_groups.c.dataset_name == make_storable(name)) & (
        dataset_groups.c.group_name == make_storable(group)
    )
    return bool(conn.execute(delete(dataset_groups).where(here)).rowcount)


def find_oldest_started_job_time(conn: Connection) -> datetime | None:
    """Return the start time of the oldest job that has started and not ended; None if there is none."""
    began = func.coalesce(jobs.c.attempt_started_at, jobs.c.started_at, jobs.c.submitted_at)
    return from_optional_micros(conn.scalar(select(func.min(began)).where(jobs.c.state.in_(_STATES_WITH_TASKS))))


def _dataset_from_row(row: Row[Any], granted: Mapping[str, bool]) -> Dataset:
    writable = tuple(sorted(group for group, writable in granted.items() if writable))
    return record_from_row(Dataset, row, groups=tuple(sorted(granted)), writable_groups=writable)


def _build_seal_context(name: str) -> str:
    return f"the dataset {name}"  # never change it: stored values are bound to this text
