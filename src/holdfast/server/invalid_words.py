"""What is wrong with a value in a request, in our words."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

_WORDS: dict[str, Callable[[Mapping[str, Any]], str]] = {
    "missing": lambda _: "is missing",
    "extra_forbidden": lambda _: "is not known here",
    "greater_than": lambda ctx: f"must be more than {ctx['gt']:g}",
    "greater_than_equal": lambda ctx: f"must be at least {ctx['ge']:g}",
    "less_than_equal": lambda ctx: f"must be at most {ctx['le']}",
    "string_too_short": lambda ctx: f"must have at least {ctx['min_length']} characters",
    "string_too_long": lambda ctx: f"must have at most {ctx['max_length']} characters",
    "literal_error": lambda ctx: f"must be {ctx['expected']}",
    "enum": lambda ctx: f"must be {ctx['expected']}",
    "value_error": lambda ctx: str(ctx["error"]),
    "int_parsing": lambda _: "must be a whole number",
    "int_type": lambda _: "must be a whole number",
    "int_from_float": lambda _: "must be a whole number",
    "float_parsing": lambda _: "must be a number",
    "float_type": lambda _: "must be a number",
    "string_type": lambda _: "must be text",
    "bool_parsing": lambda _: "must be true or false",
    "bool_type": lambda _: "must be true or false",
}


def in_words(problem: Mapping[str, Any]) -> str:
    """One of the framework's problems, without its field; in its own words where we have none."""
    words = _WORDS.get(str(problem["type"]))
    if words is not None:
        return words(problem.get("ctx") or {})
    text = str(problem["msg"])
    return text[:1].lower() + text[1:]
