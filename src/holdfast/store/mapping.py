"""Conversion between dataclasses and rows.

A field is stored in the column of its name, with few exceptions. Its type says how: times and durations as
microseconds, enums by their values, messages packed, and structures as JSON, in a column whose name ends in `_json`. An
empty structure may be NULL.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import fields, is_dataclass
from datetime import datetime, timedelta
from enum import Enum
from functools import cache
from operator import attrgetter
from types import NoneType, UnionType
from typing import Any, NamedTuple, TypeVar, get_args, get_origin, get_type_hints

from sqlalchemy import Row, Table

from holdfast.core.messages import pack_message, unpack_message

from .rows import duration_from_micros, duration_to_micros, from_micros, make_storable, to_json, to_micros

T = TypeVar("T")
Converter = Callable[[Any], Any]

_MESSAGE_FIELDS = ("message", "why")
_COLUMN_NAMES = {
    "user": "user_name",
    "group": "group_name",
    "schedule": "schedule_id",
    "index": "task_index",
    "default": "is_default",
    "held": "hold",
}


class _FieldMapping(NamedTuple):
    name: str
    column: str
    optional: bool  # it may be None; otherwise NULL means its default
    structure: bool  # stored as JSON
    load: Converter
    dump: Converter


def record_from_row(kind: Callable[..., T], row: Row[Any], **others: Any) -> T:
    """Build a record from the columns of its fields. `others`: fields that are not stored like this."""
    values = others
    for position, field in _list_loaded_fields(kind, row._fields):
        value = row[position]
        if field.name in others or (value is None and not field.optional):
            continue
        values[field.name] = None if value is None else field.load(value)
    return kind(**values)


def record_to_row(record: Any, table: Table, **others: Any) -> dict[str, Any]:
    """Return the columns of a table that its fields are stored in. `others`: columns with other values."""
    values = others
    for field, omits_empty in _list_stored_fields(record.__class__, table):
        if field.column not in others:
            value = getattr(record, field.name)
            values[field.column] = None if value is None or (omits_empty and not value) else field.dump(value)
    return values


def record_to_json(record: Any) -> dict[str, Any]:
    values = {}
    for field in _list_fields(record.__class__, nested=True):
        value = getattr(record, field.name)
        values[field.name] = None if value is None else field.dump(value)
    return values


def record_from_json(kind: Callable[..., T], data: Mapping[str, Any]) -> T:
    """Convert the output of `record_to_json` back. Records of older releases may lack fields."""
    known = {field.name: field.load for field in _list_fields(kind, nested=True) if field.name in data}
    return kind(**{name: None if data[name] is None else load(data[name]) for name, load in known.items()})


@cache
def _list_loaded_fields(kind: Any, columns: tuple[str, ...]) -> list[tuple[int, _FieldMapping]]:
    """Return the fields that a row with these columns has, with the positions of their columns."""
    found = _list_fields(kind)
    return [(columns.index(field.column), field) for field in found if field.column in columns]


@cache
def _list_stored_fields(kind: Any, table: Table) -> list[tuple[_FieldMapping, bool]]:
    """Return the fields that have a column, and whether it is NULL for an empty structure."""
    stored = [field for field in _list_fields(kind) if field.column in table.c]
    return [(field, bool(field.structure and table.c[field.column].nullable)) for field in stored]


@cache
def _list_fields(kind: Any, *, nested: bool = False) -> list[_FieldMapping]:
    hints = get_type_hints(kind)
    return [_build_field_mapping(field.name, hints[field.name], nested) for field in fields(kind)]


def _build_field_mapping(name: str, hint: Any, nested: bool) -> _FieldMapping:
    """`nested`: it is stored within the JSON of another record."""
    options = get_args(hint) if isinstance(hint, UnionType) else (hint,)
    kind = next(option for option in options if option is not NoneType)
    column = _COLUMN_NAMES.get(name, name)
    load, dump = _choose_converters(name, kind)
    structure = _is_structure(kind)
    if structure and not nested:
        column, inner_load, inner_dump = f"{column}_json", load, dump
        load, dump = lambda text: inner_load(json.loads(text)), lambda value: to_json(inner_dump(value))
    return _FieldMapping(name, column, NoneType in options, structure, load, dump)


def _choose_converters(name: str, kind: Any) -> tuple[Converter, Converter]:
    if is_dataclass(kind):
        return lambda data: record_from_json(kind, data), record_to_json  # type: ignore[arg-type]
    if get_origin(kind) is tuple:
        return tuple, lambda values: [_to_plain_value(value) for value in values]
    if _is_structure(kind):
        return dict, dict
    if name in _MESSAGE_FIELDS:
        return unpack_message, lambda message: make_storable(pack_message(message))
    if kind is datetime:
        return from_micros, to_micros
    if kind is timedelta:
        return duration_from_micros, duration_to_micros
    if issubclass(kind, Enum):
        return kind, attrgetter("value")
    return kind, make_storable if kind is str else _keep_value


def _is_structure(kind: Any) -> bool:
    return is_dataclass(kind) or get_origin(kind) is not None


def _to_plain_value(value: Any) -> Any:
    return dict(value) if isinstance(value, Mapping) else value


def _keep_value(value: Any) -> Any:
    return value
