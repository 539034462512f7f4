"""Forms with nested[fields], as Node's clients send them."""

from __future__ import annotations

import re
from typing import Any
from urllib.parse import unquote_plus

from .errors import PaiError

MAX_FIELDS = 1000
MAX_DEPTH = 20

_PART = re.compile(r"\[([^\[\]]*)\]")

# While it is read, lists are tables too, by number: a[999999999]=x costs no more than a[0]=x.
_Table = dict[str, Any]


def parse_form(text: str) -> dict[str, Any]:
    """a[b][0]=x&a[c]=y -> {"a": {"b": ["x"], "c": "y"}}. Every value is text."""
    fields = text.split("&", MAX_FIELDS)
    if len(fields) > MAX_FIELDS:
        raise _bad(f"A form may have at most {MAX_FIELDS} fields.")
    table: _Table = {}
    for field in filter(None, fields):
        name, _, value = field.partition("=")
        _put(table, _path(unquote_plus(name)), unquote_plus(value))
    return {key: _finish(value) for key, value in table.items()}


def _path(name: str) -> list[str]:
    first, bracket, rest = name.partition("[")
    parts = _PART.findall(bracket + rest)
    if "".join(f"[{part}]" for part in parts) != bracket + rest:
        return [name]  # its brackets do not match: a plain name
    if len(parts) >= MAX_DEPTH:
        raise _bad(f"The form's field {name[:80]} is nested too deeply.")
    return [first, *parts]


def _put(table: _Table, path: list[str], value: str) -> None:
    *outer, last = path
    for part in outer:
        inner = table.setdefault(_key(table, part), {})
        if not isinstance(inner, dict):
            raise _bad(f"The form's field {path[0][:80]} is both a text and more than that.")
        table = inner
    key = _key(table, last)
    before = table.get(key)
    if before is None:
        table[key] = value
    elif isinstance(before, dict):
        before[str(len(before))] = value
    else:
        table[key] = {"0": before, "1": value}


def _key(table: _Table, part: str) -> str:
    return part or str(len(table))  # a[]=x: the next one


def _finish(value: Any) -> Any:
    if not isinstance(value, dict):
        return value
    if all(key.isascii() and key.isdigit() and len(key) < 10 for key in value):
        return [_finish(value[key]) for key in sorted(value, key=int)]
    return {key: _finish(inner) for key, inner in value.items()}


def _bad(message: str) -> PaiError:
    return PaiError(400, "InvalidParametersError", message)
