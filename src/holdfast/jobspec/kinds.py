"""Field kinds of job files; see fields.FieldKind."""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import timedelta
from functools import partial
from typing import Any, TypeVar

from holdfast.core.messages import mark_translatable, msg

from .fields import FieldKind, Fields, FieldSpec, FieldValue, InvalidValue, build_similar_name_hint, describe_node
from .paths import clip_text
from .quantities import DURATION_PATTERN, MAX_DURATION, SIZE_PATTERN, parse_duration, parse_size

T = TypeVar("T")

# A value is text, or a plain YAML word, which keeps its spelling.
_TEXT_TYPES = ["string", "number", "boolean"]
_NO_CONTROL_PATTERN = r"^[^\u0000-\u001f\u007f-\u009f\u2028\u2029\u202a-\u202e\u2066-\u2069]*$"
_NO_CONTROL_REGEX = re.compile(_NO_CONTROL_PATTERN)
_BOOLEAN_WORDS = {"yes": "true", "on": "true", "y": "true", "no": "false", "off": "false", "n": "false"}


def read_text_scalar(at: FieldValue) -> str:
    """Return the value as text. Plain YAML words keep their spelling: 1.10, 007, true."""
    if isinstance(at.node.value, str):
        return at.node.value
    if at.node.source_text is None or at.node.value is None:
        raise InvalidValue(msg("must be text, not {node}", node=describe_node(at.node)), rule="type", expected="string")
    return at.node.source_text


def make_text_kind(
    *, least: int = 1, most: int = 65536, pattern: str | None = None, rule: str = "", line: bool = False
) -> FieldKind[str]:
    """Text; `rule` describes `pattern`; `line` excludes control characters and line breaks."""
    expected = re.compile(pattern) if pattern else _NO_CONTROL_REGEX if line else None
    rule = rule or msg("must be one line of text without control characters")

    def parse_text(at: FieldValue) -> str:
        value = read_text_scalar(at)
        if len(value) < least or (least and not value.strip()):
            raise InvalidValue(msg("must not be empty"), rule="minLength", expected=max(1, least))
        if len(value) > most:
            message = msg("is too long: {value} characters; the limit is {limit}", value=len(value), limit=most)
            raise InvalidValue(message, rule="maxLength", expected=most)
        if expected and not expected.fullmatch(value):
            raise InvalidValue(
                msg("{rule}, not {value}", rule=rule, value=repr(clip_text(value))),
                rule="pattern",
                expected=expected.pattern,
            )
        return value

    schema = {"type": _TEXT_TYPES, "minLength": least, "maxLength": most}
    return FieldKind(parse_text, {**schema, "pattern": expected.pattern} if expected else schema)


def make_integer_kind(*, least: int, most: int) -> FieldKind[int]:
    def parse_integer(at: FieldValue) -> int:
        value = at.node.value
        if isinstance(value, float) and value.is_integer():
            value = int(value)
        if isinstance(value, bool) or not isinstance(value, int):
            quoted = isinstance(value, str) and re.fullmatch(r"\s*-?[0-9]+\s*", value)
            message, hint = (
                msg("must be a whole number, not {node}", node=describe_node(at.node)),
                msg("Remove the quotes.") if quoted else None,
            )
            raise InvalidValue(message, hint, rule="type", expected="integer")
        _check_range(value, least, most)
        return value

    return FieldKind(parse_integer, {"type": "integer", "minimum": least, "maximum": most})


def make_number_kind(*, least: float, most: float) -> FieldKind[float]:
    def parse_number(at: FieldValue) -> float:
        value = at.node.value
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise InvalidValue(
                msg("must be a number, not {node}", node=describe_node(at.node)), rule="type", expected="number"
            )
        _check_range(value, least, most)
        return float(value)

    return FieldKind(parse_number, {"type": "number", "minimum": least, "maximum": most})


def _check_range(value: float, least: float, most: float) -> None:
    if value < least:
        raise InvalidValue(
            msg("must be at least {minimum}, not {value}", minimum=least, value=clip_text(str(value))),
            rule="minimum",
            expected=least,
        )
    if value > most:
        raise InvalidValue(
            msg("must be at most {limit}, not {value}", limit=most, value=clip_text(str(value))),
            rule="maximum",
            expected=most,
        )


def _read_boolean(at: FieldValue) -> bool:
    value = at.node.value
    if isinstance(value, bool):
        return value
    word = _BOOLEAN_WORDS.get(value.lower()) if isinstance(value, str) else None
    message, hint = (
        msg("must be true or false, not {node}", node=describe_node(at.node)),
        msg("Write {value}.", value=word) if word else None,
    )
    raise InvalidValue(message, hint, rule="type", expected="boolean")


BOOLEAN_KIND = FieldKind(_read_boolean, {"type": "boolean"})


def make_choice_kind(*words: str) -> FieldKind[str]:
    rule = (
        msg("must be {choices}", choices=" or ".join(words))
        if len(words) < 5
        else msg("must be one of {choices}", choices=", ".join(words))
    )

    def parse_choice(at: FieldValue) -> str:
        value = at.node.value if isinstance(at.node.value, str) else at.node.source_text
        if value not in words:
            hint = partial(build_similar_name_hint, str(value), words)
            raise InvalidValue(
                msg("{rule}, not {node}", rule=rule, node=describe_node(at.node)), hint, rule="enum", expected=words
            )
        return value

    return FieldKind(parse_choice, {"enum": list(words)})


ANY_KIND: FieldKind[Any] = FieldKind(lambda at: at.node.to_plain(), {})


def _read_object(at: FieldValue) -> dict[str, Any]:
    at.get_entries()
    plain: dict[str, Any] = at.node.to_plain()
    return plain


OBJECT_KIND = FieldKind(_read_object, {"type": "object"})


def make_list_kind(kind: FieldKind[T], *, least: int = 0, most: int = 10_000) -> FieldKind[tuple[T, ...]]:
    def parse_list(at: FieldValue) -> tuple[T, ...]:
        items = at.list_items()
        check_count(len(items), "items", least, most, ("minItems", "maxItems"))
        values = [item.read_as_kind(kind, None) for item in items]
        return tuple(value for value in values if value is not None)

    return FieldKind(parse_list, {"type": "array", "items": kind.schema, "minItems": least, "maxItems": most})


def make_map_kind(
    kind: FieldKind[T], *, name: FieldKind[str], least: int = 0, most: int = 10_000, empty: T | None = None
) -> FieldKind[dict[str, T]]:
    """A mapping of names to values. `empty` is the value of a name without one; otherwise that is an error."""

    def parse_map(at: FieldValue) -> dict[str, T]:
        entries = at.get_entries()
        check_count(len(entries), "entries", least, most, ("minProperties", "maxProperties"))
        values: dict[str, T] = {}
        for key, value in entries.items():
            check_name(value, key, name)
            got = empty if value.node.value is None and empty is not None else value.read_as_kind(kind, None)
            if got is not None:
                values[key] = got
        return values

    names = {key: value for key, value in name.schema.items() if key != "type"}
    values = {"anyOf": [kind.schema, {"type": "null"}]} if empty is not None else kind.schema
    return FieldKind(parse_map, {"type": "object", "propertyNames": names, "additionalProperties": values})


def check_name(at: FieldValue, key: str, kind: FieldKind[str]) -> None:
    node = type(at.node)(key, at.node.line)
    FieldValue(node, at.path, at.report).read_as_kind(kind, key)


def make_object_kind(keys: Mapping[str, FieldSpec]) -> FieldKind[dict[str, Any]]:
    """A mapping with these fields only."""

    def parse_object(at: FieldValue) -> dict[str, Any]:
        fields = Fields(at)
        values = fields.read_fields(keys)
        fields.report_unknown_keys()
        return values

    return FieldKind(parse_object, build_schema(keys))


def build_schema(keys: Mapping[str, FieldSpec]) -> dict[str, Any]:
    properties = {name: {**key.kind.schema, "description": key.description} for name, key in keys.items()}
    return {"type": "object", "properties": properties, "additionalProperties": False}


def make_union_kind(*kinds: tuple[type | tuple[type, ...], FieldKind[Any]], otherwise: str) -> FieldKind[Any]:
    """Choose the kind by the type of the value."""

    def parse_union(at: FieldValue) -> Any:
        for types, kind in kinds:
            if isinstance(at.node.value, types):
                return kind.read(at)
        raise InvalidValue(
            msg("must be {expected}, not {node}", expected=otherwise, node=describe_node(at.node)),
            rule="type",
            expected=otherwise,
        )

    return FieldKind(parse_union, {"anyOf": [dict(kind.schema) for _, kind in kinds]})


def make_optional_kind(kind: FieldKind[T]) -> FieldKind[T | NoneKeyword]:
    """The same kind, or the word none."""

    def parse_optional(at: FieldValue) -> T | NoneKeyword:
        if isinstance(at.node.value, str) and at.node.value.lower() == "none":
            return NONE_KEYWORD
        return kind.read(at)

    return FieldKind(parse_optional, {"anyOf": [{"const": "none"}, dict(kind.schema)]})


class NoneKeyword:
    """The word none, as opposed to an absent field."""


NONE_KEYWORD = NoneKeyword()


def _read_duration(at: FieldValue) -> timedelta:
    value = at.node.value
    if isinstance(value, int | float) and not isinstance(value, bool):
        duration = timedelta(seconds=min(max(value, -1), 10**11))
    else:
        parsed = parse_duration(value) if isinstance(value, str) else None
        if parsed is None:
            hint = msg("Write 90m, 2h30m, 1d or a number of seconds.")
            raise InvalidValue(
                msg("must be a duration, not {node}", node=describe_node(at.node)),
                hint,
                rule="format",
                expected="duration",
            )
        duration = parsed
    if not timedelta(0) <= duration <= MAX_DURATION:
        message = msg(
            "must be between 0 and {days} days, not {node}", days=MAX_DURATION.days, node=describe_node(at.node)
        )
        raise InvalidValue(message, rule="format", expected="duration")
    return duration


_MAX_DURATION_SECONDS = int(MAX_DURATION.total_seconds())
_DURATION_SCHEMA = [
    {"type": "string", "pattern": DURATION_PATTERN},
    {"type": "number", "minimum": 0, "maximum": _MAX_DURATION_SECONDS},
]
DURATION_KIND = FieldKind(_read_duration, {"anyOf": _DURATION_SCHEMA})


def make_size_kind(*, least: int, most: int = 2**60) -> FieldKind[int]:
    """A size in bytes."""

    def parse_bytes(at: FieldValue) -> int:
        value = at.node.value
        size = parse_size(value) if isinstance(value, str) else value
        if isinstance(size, bool) or not isinstance(size, int):
            hint = msg("Write 512Mi, 2Gi, 1.5G or a number of bytes.")
            raise InvalidValue(
                msg("must be a size, not {node}", node=describe_node(at.node)), hint, rule="format", expected="size"
            )
        if size < least and size > 0:
            hint = msg("Did you mean {size}Gi?", size=size) if size < 4096 else msg("Write 512Mi or 2Gi.")
            raise InvalidValue(msg("is only {size} bytes", size=size), hint, rule="minimum", expected=least)
        if not least <= size <= most:
            message = msg(
                "must be between {minimum} and {maximum} bytes, not {node}",
                minimum=least,
                maximum=most,
                node=describe_node(at.node),
            )
            raise InvalidValue(
                message, rule="minimum" if size < least else "maximum", expected=least if size < least else most
            )
        return size

    return FieldKind(
        parse_bytes,
        {
            "anyOf": [
                {"type": "string", "pattern": SIZE_PATTERN},
                {"type": "integer", "minimum": least, "maximum": most},
            ]
        },
    )


def check_count(count: int, what: str, least: int, most: int, names: tuple[str, str]) -> None:
    """Validate a count. `names`: the violated rules for too few and too many."""
    if not least <= count <= most:
        span = (
            msg("at most {limit}", limit=most)
            if not least
            else msg("{minimum} to {maximum}", minimum=least, maximum=most)
        )
        few = count < least
        message = msg("must have {span} {what}, not {count}", span=span, what=mark_translatable(what), count=count)
        raise InvalidValue(message, rule=names[0] if few else names[1], expected=least if few else most)
