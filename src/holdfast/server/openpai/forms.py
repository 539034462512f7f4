"""Forms with nested[fields], as Node's clients send them."""

from __future__ import annotations

import re
from typing import Any
from urllib.parse import unquote_plus

from .errors import PaiError

MAX_FIELDS = 1000
MAX_DEPTH = 20

_KEY_PATTERN = re.compile(r"\[([^\[\]]*)\]")

# While parsing, lists are dictionaries by index too: a[999999999]=x costs no more than a[0]=x.
_FormTable = dict[str, Any]


def parse_form(text: str) -> dict[str, Any]:
    """a[b][0]=x&a[c]=y -> {"a": {"b": ["x"], "c": "y"}}. Every value is text."""
    fields = text.split("&", MAX_FIELDS)
    if len(fields) > MAX_FIELDS:
        raise _build_form_error(f"The form has more than {MAX_FIELDS} fields.")
    table: _FormTable = {}
    for field in filter(None, fields):
        name, _, value = field.partition("=")
        _set_value(table, _parse_path(unquote_plus(name)), unquote_plus(value))
    return {key: _convert_tables(value) for key, value in table.items()}


def _parse_path(name: str) -> list[str]:
    first, bracket, rest = name.partition("[")
    parts = _KEY_PATTERN.findall(bracket + rest)
    if "".join(f"[{part}]" for part in parts) != bracket + rest:
        return [name]  # unbalanced brackets: a plain name
    if len(parts) >= MAX_DEPTH:
        raise _build_form_error(f"The form's field {name[:80]} is nested too deeply.")
    return [first, *parts]


def _set_value(table: _FormTable, path: list[str], value: str) -> None:
    *outer, last = path
    for part in outer:
        inner = table.setdefault(_resolve_key(table, part), {})
        if not isinstance(inner, dict):
            raise _build_form_error(f"The form's field {path[0][:80]} is both a text and an object.")
        table = inner
    key = _resolve_key(table, last)
    before = table.get(key)
    if before is None:
        table[key] = value
    elif isinstance(before, dict):
        before[str(len(before))] = value
    else:
        table[key] = {"0": before, "1": value}


def _resolve_key(table: _FormTable, part: str) -> str:
    return part or str(len(table))  # a[]=x: append


def _convert_tables(value: Any) -> Any:
    if not isinstance(value, dict):
        return value
    if all(key.isascii() and key.isdigit() and len(key) < 10 for key in value):
        return [_convert_tables(value[key]) for key in sorted(value, key=int)]
    return {key: _convert_tables(inner) for key, inner in value.items()}


def _build_form_error(message: str) -> PaiError:
    return PaiError(400, "InvalidParametersError", message)
