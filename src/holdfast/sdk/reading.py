"""JSON -> dataclass and back. Lenient: unknown fields are ignored, missing ones take their default, so that clients and
servers of different versions get along."""

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
Reader = Callable[[Any], Any]


class Misread(Exception):
    """A value that is not what its field says."""


def read(kind: type[T], data: object) -> T:
    """`data`, parsed from JSON, as a `kind`."""
    try:
        return typing.cast(T, reader(typing.cast(Any, kind))(data))
    except Misread as error:
        raise UnexpectedReply(
            f"The server's answer could not be read as {getattr(kind, '__name__', kind)}: {error}",
            hint="Client and server may be of very different versions; compare them with `holdfast version`.",
        ) from None


def dump(value: object) -> Any:
    """A dataclass (or a list, dict, time in one) as JSON values; the inverse of `read`."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {field.name: dump(getattr(value, field.name)) for field in dataclasses.fields(value)}
    if isinstance(value, Mapping):
        return {str(key): dump(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [dump(item) for item in value]
    if isinstance(value, datetime):
        return value.astimezone(UTC).isoformat().replace("+00:00", "Z")
    if isinstance(value, Enum):
        return value.value
    return value


@cache
def reader(kind: Any) -> Reader:
    """What turns a JSON value into a `kind`."""
    origin, args = typing.get_origin(kind), typing.get_args(kind)
    if origin in (types.UnionType, typing.Union):
        return _optional(reader(next(arg for arg in args if arg is not type(None))))
    if origin is typing.Literal:
        return _text
    if origin is tuple:
        return _sequence(reader(args[0]))
    if origin in (dict, Mapping):
        return _mapping(reader(args[1]))
    if dataclasses.is_dataclass(origin or kind):
        return _record(kind)
    if isinstance(kind, type) and issubclass(kind, Enum):
        return _enum(kind)
    return _PLAIN[kind]


def _optional(inner: Reader) -> Reader:
    return lambda value: None if value is None else inner(value)


def _sequence(inner: Reader) -> Reader:
    def convert(value: Any) -> tuple[Any, ...]:
        if not isinstance(value, list):
            raise Misread(f"expected a list, found {_short(value)}")
        return tuple(inner(item) for item in value)

    return convert


def _mapping(inner: Reader) -> Reader:
    def convert(value: Any) -> dict[str, Any]:
        if not isinstance(value, dict):
            raise Misread(f"expected an object, found {_short(value)}")
        return {key: inner(item) for key, item in value.items()}

    return convert


def _enum(kind: type[Enum]) -> Reader:
    """A word newer than this client becomes UNKNOWN where there is one."""

    def convert(value: Any) -> Enum:
        try:
            return kind(value)
        except ValueError:
            if "UNKNOWN" in kind.__members__:
                return kind["UNKNOWN"]
            raise Misread(f"unknown word {_short(value)}") from None

    return convert


def _record(kind: Any) -> Reader:
    """Generic dataclasses are read with their parameter filled in, such as Page[JobSummary]."""
    cls = typing.get_origin(kind) or kind
    filled = dict(zip(getattr(cls, "__parameters__", ()), typing.get_args(kind), strict=False))
    hints = typing.get_type_hints(cls)
    fields = [(field, reader(_fill(hints[field.name], filled))) for field in dataclasses.fields(cls)]

    def convert(value: Any) -> Any:
        if not isinstance(value, dict):
            raise Misread(f"expected an object, found {_short(value)}")
        return cls(**{field.name: _field(field, inner, value) for field, inner in fields if _has(field, value)})

    return convert


def _fill(hint: Any, filled: dict[Any, Any]) -> Any:
    if hint in filled:
        return filled[hint]
    parameters = getattr(hint, "__parameters__", ())
    return hint[tuple(filled[parameter] for parameter in parameters)] if parameters else hint


def _has(field: dataclasses.Field[Any], value: dict[str, Any]) -> bool:
    required = field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING
    return required or value.get(field.name) is not None


def _field(field: dataclasses.Field[Any], inner: Reader, value: dict[str, Any]) -> Any:
    try:
        return inner(value.get(field.name))
    except Misread as error:
        raise Misread(f"{field.name}: {error}") from None


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise Misread(f"expected text, found {_short(value)}")
    return value


def _number(value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise Misread(f"expected a number, found {_short(value)}")
    return value


def _whole(value: Any) -> int:
    number = _number(value)
    if number != number or abs(number) == float("inf"):
        raise Misread(f"expected a whole number, found {_short(value)}")
    return int(number)


def _truth(value: Any) -> bool:
    if not isinstance(value, bool):
        raise Misread(f"expected true or false, found {_short(value)}")
    return value


def _instant(value: Any) -> datetime:
    try:
        found = datetime.fromisoformat(_text(value))
    except ValueError:
        raise Misread(f"expected a time, found {_short(value)}") from None
    return found if found.tzinfo else found.replace(tzinfo=UTC)


def _any(value: Any) -> Any:
    return value


_PLAIN: dict[Any, Reader] = {
    str: _text,
    float: _number,
    int: _whole,
    bool: _truth,
    datetime: _instant,
    Any: _any,
    object: _any,
}


def _short(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 40 else text[:39] + "…"
