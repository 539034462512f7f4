"""The kinds of values job files are made of. Each reads and describes itself; see fields.Kind."""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import timedelta
from functools import partial
from typing import Any, TypeVar

from holdfast.core.messages import msg, noun

from .fields import At, Fields, Key, Kind, Wrong, describe, guess
from .paths import clip
from .quantities import DURATION, MAX_DURATION, SIZE, parse_duration, parse_size

T = TypeVar("T")

# A value is text, or a plain word of YAML, which is then taken as it is spelled.
_TEXT_TYPES = ["string", "number", "boolean"]
_NO_CONTROL = r"^[^\u0000-\u001f\u007f-\u009f\u2028\u2029\u202a-\u202e\u2066-\u2069]*$"
_NO_CONTROL_RE = re.compile(_NO_CONTROL)
_YES_NO = {"yes": "true", "on": "true", "y": "true", "no": "false", "off": "false", "n": "false"}


def spelled(at: At) -> str:
    """The value as text. Plain YAML words count as they are spelled: 1.10, 007, true."""
    if isinstance(at.node.value, str):
        return at.node.value
    if at.node.written is None or at.node.value is None:
        raise Wrong(msg("must be text, not {node}", node=describe(at.node)), rule="type", expected="string")
    return at.node.written


def text(
    *, least: int = 1, most: int = 65536, pattern: str | None = None, rule: str = "", line: bool = False
) -> Kind[str]:
    """Text; `pattern` with its `rule` in words; `line` forbids control characters and so line breaks."""
    expected = re.compile(pattern) if pattern else _NO_CONTROL_RE if line else None
    rule = rule or msg("must be one line of text without control characters")

    def read(at: At) -> str:
        value = spelled(at)
        if len(value) < least or (least and not value.strip()):
            raise Wrong(msg("must not be empty"), rule="minLength", expected=max(1, least))
        if len(value) > most:
            said = msg("is too long: {value} characters, at most {most} are accepted", value=len(value), most=most)
            raise Wrong(said, rule="maxLength", expected=most)
        if expected and not expected.fullmatch(value):
            raise Wrong(
                msg("{rule}, not {value}", rule=rule, value=repr(clip(value))),
                rule="pattern",
                expected=expected.pattern,
            )
        return value

    schema = {"type": _TEXT_TYPES, "minLength": least, "maxLength": most}
    return Kind(read, {**schema, "pattern": expected.pattern} if expected else schema)


def integer(*, least: int, most: int) -> Kind[int]:
    def read(at: At) -> int:
        value = at.node.value
        if isinstance(value, float) and value.is_integer():
            value = int(value)
        if isinstance(value, bool) or not isinstance(value, int):
            quoted = isinstance(value, str) and re.fullmatch(r"\s*-?[0-9]+\s*", value)
            said, hint = (
                msg("must be a whole number, not {node}", node=describe(at.node)),
                msg("Remove the quotes.") if quoted else None,
            )
            raise Wrong(said, hint, rule="type", expected="integer")
        _check_range(value, least, most)
        return value

    return Kind(read, {"type": "integer", "minimum": least, "maximum": most})


def number(*, least: float, most: float) -> Kind[float]:
    def read(at: At) -> float:
        value = at.node.value
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise Wrong(msg("must be a number, not {node}", node=describe(at.node)), rule="type", expected="number")
        _check_range(value, least, most)
        return float(value)

    return Kind(read, {"type": "number", "minimum": least, "maximum": most})


def _check_range(value: float, least: float, most: float) -> None:
    if value < least:
        raise Wrong(
            msg("must be at least {least}, not {value}", least=least, value=clip(str(value))),
            rule="minimum",
            expected=least,
        )
    if value > most:
        raise Wrong(
            msg("must be at most {most}, not {value}", most=most, value=clip(str(value))), rule="maximum", expected=most
        )


def _read_boolean(at: At) -> bool:
    value = at.node.value
    if isinstance(value, bool):
        return value
    word = _YES_NO.get(value.lower()) if isinstance(value, str) else None
    said, hint = (
        msg("must be true or false, not {node}", node=describe(at.node)),
        msg("Write {word}.", word=word) if word else None,
    )
    raise Wrong(said, hint, rule="type", expected="boolean")


BOOLEAN = Kind(_read_boolean, {"type": "boolean"})


def choice(*words: str) -> Kind[str]:
    rule = (
        msg("must be {words}", words=" or ".join(words))
        if len(words) < 5
        else msg("must be one of {words}", words=", ".join(words))
    )

    def read(at: At) -> str:
        value = at.node.value if isinstance(at.node.value, str) else at.node.written
        if value not in words:
            hint = partial(guess, str(value), words)
            raise Wrong(msg("{rule}, not {node}", rule=rule, node=describe(at.node)), hint, rule="enum", expected=words)
        return value

    return Kind(read, {"enum": list(words)})


ANYTHING: Kind[Any] = Kind(lambda at: at.node.plain(), {})


def _read_object(at: At) -> dict[str, Any]:
    at.entries()
    plain: dict[str, Any] = at.node.plain()
    return plain


OBJECT = Kind(_read_object, {"type": "object"})


def list_of(kind: Kind[T], *, least: int = 0, most: int = 10_000) -> Kind[tuple[T, ...]]:
    def read(at: At) -> tuple[T, ...]:
        items = at.items()
        check_count(len(items), "items", least, most, ("minItems", "maxItems"))
        values = [item.read(kind, None) for item in items]
        return tuple(value for value in values if value is not None)

    return Kind(read, {"type": "array", "items": kind.schema, "minItems": least, "maxItems": most})


def map_of(
    kind: Kind[T], *, name: Kind[str], least: int = 0, most: int = 10_000, empty: T | None = None
) -> Kind[dict[str, T]]:
    """Names to values. `empty` is what a name with nothing behind it means; without it, that is a mistake."""

    def read(at: At) -> dict[str, T]:
        entries = at.entries()
        check_count(len(entries), "entries", least, most, ("minProperties", "maxProperties"))
        values: dict[str, T] = {}
        for key, value in entries.items():
            check_name(value, key, name)
            got = empty if value.node.value is None and empty is not None else value.read(kind, None)
            if got is not None:
                values[key] = got
        return values

    names = {key: value for key, value in name.schema.items() if key != "type"}
    values = {"anyOf": [kind.schema, {"type": "null"}]} if empty is not None else kind.schema
    return Kind(read, {"type": "object", "propertyNames": names, "additionalProperties": values})


def check_name(at: At, key: str, kind: Kind[str]) -> None:
    """Hold the key of an entry to a kind of text."""
    node = type(at.node)(key, at.node.line)
    At(node, at.path, at.report).read(kind, key)


def object_of(keys: Mapping[str, Key]) -> Kind[dict[str, Any]]:
    """A mapping with these fields and no others; what is there, by name."""

    def read(at: At) -> dict[str, Any]:
        fields = Fields(at)
        values = fields.table(keys)
        fields.close()
        return values

    return Kind(read, schema_of(keys))


def schema_of(keys: Mapping[str, Key]) -> dict[str, Any]:
    properties = {name: {**key.kind.schema, "description": key.about} for name, key in keys.items()}
    return {"type": "object", "properties": properties, "additionalProperties": False}


def either(*kinds: tuple[type | tuple[type, ...], Kind[Any]], otherwise: str) -> Kind[Any]:
    """The kind is chosen by the type of the value."""

    def read(at: At) -> Any:
        for types, kind in kinds:
            if isinstance(at.node.value, types):
                return kind.read(at)
        raise Wrong(
            msg("must be {otherwise}, not {node}", otherwise=otherwise, node=describe(at.node)),
            rule="type",
            expected=otherwise,
        )

    return Kind(read, {"anyOf": [dict(kind.schema) for _, kind in kinds]})


def or_none(kind: Kind[T]) -> Kind[T | NoneWord]:
    """The same, or the word none."""

    def read(at: At) -> T | NoneWord:
        if isinstance(at.node.value, str) and at.node.value.lower() == "none":
            return NONE
        return kind.read(at)

    return Kind(read, {"anyOf": [{"const": "none"}, dict(kind.schema)]})


class NoneWord:
    """The word none, told apart from an absent field."""


NONE = NoneWord()


def _read_duration(at: At) -> timedelta:
    value = at.node.value
    if isinstance(value, int | float) and not isinstance(value, bool):
        duration = timedelta(seconds=min(max(value, -1), 10**11))
    else:
        parsed = parse_duration(value) if isinstance(value, str) else None
        if parsed is None:
            hint = msg("Write 90m, 2h30m, 1d or a number of seconds.")
            raise Wrong(
                msg("must be a duration, not {node}", node=describe(at.node)), hint, rule="format", expected="duration"
            )
        duration = parsed
    if not timedelta(0) <= duration <= MAX_DURATION:
        said = msg("must be between 0 and {days} days, not {node}", days=MAX_DURATION.days, node=describe(at.node))
        raise Wrong(said, rule="format", expected="duration")
    return duration


_SECONDS = int(MAX_DURATION.total_seconds())
_DURATION_SCHEMA = [
    {"type": "string", "pattern": DURATION},
    {"type": "number", "minimum": 0, "maximum": _SECONDS},
]
DURATION_KIND = Kind(_read_duration, {"anyOf": _DURATION_SCHEMA})


def size(*, least: int, most: int = 2**60) -> Kind[int]:
    """Bytes."""

    def read(at: At) -> int:
        value = at.node.value
        size = parse_size(value) if isinstance(value, str) else value
        if isinstance(size, bool) or not isinstance(size, int):
            hint = msg("Write 512Mi, 2Gi, 1.5G or a number of bytes.")
            raise Wrong(msg("must be a size, not {node}", node=describe(at.node)), hint, rule="format", expected="size")
        if size < least and size > 0:
            hint = msg("Did you mean {size}Gi?", size=size) if size < 4096 else msg("Write 512Mi or 2Gi.")
            raise Wrong(msg("is only {size} bytes", size=size), hint, rule="minimum", expected=least)
        if not least <= size <= most:
            said = msg(
                "must be between {least} and {most} bytes, not {node}", least=least, most=most, node=describe(at.node)
            )
            raise Wrong(said, rule="minimum" if size < least else "maximum", expected=least if size < least else most)
        return size

    return Kind(
        read,
        {"anyOf": [{"type": "string", "pattern": SIZE}, {"type": "integer", "minimum": least, "maximum": most}]},
    )


def check_count(count: int, what: str, least: int, most: int, names: tuple[str, str]) -> None:
    """`names` are those of the rules broken by too few and by too many."""
    if not least <= count <= most:
        span = msg("at most {most}", most=most) if not least else msg("{least} to {most}", least=least, most=most)
        few = count < least
        said = msg("must have {span} {what}, not {count}", span=span, what=noun(what), count=count)
        raise Wrong(said, rule=names[0] if few else names[1], expected=least if few else most)
