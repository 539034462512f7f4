"""Conversion between JSON and dataclasses. For compatibility between versions, unknown fields are ignored and missing
ones get their default."""

from __future__ import annotations

import dataclasses
import types
import typing
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from enum import Enum
from functools import cache
from typing import Any, TypeVar

from .errors import UnexpectedReply

T = TypeVar("T")
Converter = Callable[[Any], Any]


class ConversionError(Exception):
    """A value that does not match the type of its field."""


def from_json(kind: type[T], data: object) -> T:
    """Convert parsed JSON to a `kind`."""
    try:
        return typing.cast(T, build_converter(typing.cast(Any, kind))(data))
    except ConversionError as error:
        raise UnexpectedReply(
            f"Cannot parse the response as {getattr(kind, '__name__', kind)}: {error}",
            hint="Compare the versions of client and server with `holdfast version --server`.",
        ) from None


def to_json(value: object) -> Any:
    """Convert a dataclass to JSON values; the inverse of `from_json`."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {field.name: to_json(getattr(value, field.name)) for field in dataclasses.fields(value)}
    if isinstance(value, Mapping):
        return {str(key): to_json(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [to_json(item) for item in value]
    if isinstance(value, datetime):
        return value.astimezone(UTC).isoformat().replace("+00:00", "Z")
    if isinstance(value, Enum):
        return value.value
    return value


@cache
def build_converter(kind: Any) -> Converter:
    """Return the converter from JSON to a `kind`."""
    origin, args = typing.get_origin(kind), typing.get_args(kind)
    if origin in (types.UnionType, typing.Union):
        return _build_optional_converter(build_converter(next(arg for arg in args if arg is not type(None))))
    if origin is typing.Literal:
        return _convert_text
    if origin is tuple:
        return _build_sequence_converter(build_converter(args[0]))
    if origin in (dict, Mapping):
        return _build_mapping_converter(build_converter(args[1]))
    if dataclasses.is_dataclass(origin or kind):
        return _build_record_converter(kind)
    if isinstance(kind, type) and issubclass(kind, Enum):
        return _build_enum_converter(kind)
    return _CONVERTERS[kind]


def _build_optional_converter(inner: Converter) -> Converter:
    return lambda value: None if value is None else inner(value)


def _build_sequence_converter(inner: Converter) -> Converter:
    def convert_sequence(value: Any) -> tuple[Any, ...]:
        if not isinstance(value, list):
            raise ConversionError(f"expected a list, found {_shorten_repr(value)}")
        return tuple(inner(item) for item in value)

    return convert_sequence


def _build_mapping_converter(inner: Converter) -> Converter:
    def convert_mapping(value: Any) -> dict[str, Any]:
        if not isinstance(value, dict):
            raise ConversionError(f"expected an object, found {_shorten_repr(value)}")
        return {key: inner(item) for key, item in value.items()}

    return convert_mapping


def _build_enum_converter(kind: type[Enum]) -> Converter:
    """Convert unknown values to UNKNOWN, if the enum has it."""

    def convert_enum(value: Any) -> Enum:
        try:
            return kind(value)
        except ValueError:
            if "UNKNOWN" in kind.__members__:
                return kind["UNKNOWN"]
            raise ConversionError(f"unknown value {_shorten_repr(value)}") from None

    return convert_enum


def _build_record_converter(kind: Any) -> Converter:
    """Return the converter of a dataclass; type parameters are filled in, such as Page[JobSummary]."""
    cls = typing.get_origin(kind) or kind
    filled = dict(zip(getattr(cls, "__parameters__", ()), typing.get_args(kind), strict=False))
    hints = typing.get_type_hints(cls)
    fields = [
        (field, build_converter(_substitute_type_parameters(hints[field.name], filled)))
        for field in dataclasses.fields(cls)
    ]

    def convert_record(value: Any) -> Any:
        if not isinstance(value, dict):
            raise ConversionError(f"expected an object, found {_shorten_repr(value)}")
        return cls(
            **{
                field.name: _convert_field(field, inner, value)
                for field, inner in fields
                if _should_convert_field(field, value)
            }
        )

    return convert_record


def _substitute_type_parameters(hint: Any, filled: dict[Any, Any]) -> Any:
    if hint in filled:
        return filled[hint]
    parameters = getattr(hint, "__parameters__", ())
    return hint[tuple(filled[parameter] for parameter in parameters)] if parameters else hint


def _should_convert_field(field: dataclasses.Field[Any], value: dict[str, Any]) -> bool:
    required = field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING
    return required or value.get(field.name) is not None


def _convert_field(field: dataclasses.Field[Any], inner: Converter, value: dict[str, Any]) -> Any:
    try:
        return inner(value.get(field.name))
    except ConversionError as error:
        raise ConversionError(f"{field.name}: {error}") from None


def _convert_text(value: Any) -> str:
    if not isinstance(value, str):
        raise ConversionError(f"expected text, found {_shorten_repr(value)}")
    return value


def _convert_number(value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise ConversionError(f"expected a number, found {_shorten_repr(value)}")
    return value


def _convert_integer(value: Any) -> int:
    number = _convert_number(value)
    if number != number or abs(number) == float("inf"):
        raise ConversionError(f"expected a whole number, found {_shorten_repr(value)}")
    return int(number)


def _convert_bool(value: Any) -> bool:
    if not isinstance(value, bool):
        raise ConversionError(f"expected true or false, found {_shorten_repr(value)}")
    return value


def _convert_time(value: Any) -> datetime:
    try:
        found = datetime.fromisoformat(_convert_text(value))
    except ValueError:
        raise ConversionError(f"expected a time, found {_shorten_repr(value)}") from None
    return found if found.tzinfo else found.replace(tzinfo=UTC)


def _keep_value(value: Any) -> Any:
    return value


_CONVERTERS: dict[Any, Converter] = {
    str: _convert_text,
    float: _convert_number,
    int: _convert_integer,
    bool: _convert_bool,
    datetime: _convert_time,
    Any: _keep_value,
    object: _keep_value,
}


def _shorten_repr(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 40 else text[:39] + "…"
