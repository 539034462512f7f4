"""Messages for invalid values in a request."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from holdfast.core.messages import msg

_MESSAGES_BY_ERROR_TYPE: dict[str, Callable[[Mapping[str, Any]], str]] = {
    "missing": lambda _: msg("is missing"),
    "extra_forbidden": lambda _: msg("is not a known field"),
    "greater_than": lambda ctx: msg("must be greater than {gt}", gt=f"{ctx['gt']:g}"),
    "greater_than_equal": lambda ctx: msg("must be at least {ge}", ge=f"{ctx['ge']:g}"),
    "less_than_equal": lambda ctx: msg("must be at most {le}", le=ctx["le"]),
    "string_too_short": lambda ctx: msg("must have at least {min_length} characters", min_length=ctx["min_length"]),
    "string_too_long": lambda ctx: msg("must have at most {max_length} characters", max_length=ctx["max_length"]),
    "literal_error": lambda ctx: msg("must be {expected}", expected=ctx["expected"]),
    "enum": lambda ctx: msg("must be {expected}", expected=ctx["expected"]),
    "value_error": lambda ctx: str(ctx["error"]),
    "int_parsing": lambda _: msg("must be a whole number"),
    "int_type": lambda _: msg("must be a whole number"),
    "int_from_float": lambda _: msg("must be a whole number"),
    "float_parsing": lambda _: msg("must be a number"),
    "float_type": lambda _: msg("must be a number"),
    "string_type": lambda _: msg("must be text"),
    "bool_parsing": lambda _: msg("must be true or false"),
    "bool_type": lambda _: msg("must be true or false"),
}


def format_validation_error(problem: Mapping[str, Any]) -> str:
    """Return the message for one of Pydantic's errors, without its field; Pydantic's own message as fallback."""
    words = _MESSAGES_BY_ERROR_TYPE.get(str(problem["type"]))
    if words is not None:
        return words(problem.get("ctx") or {})
    text = str(problem["msg"])
    return text[:1].lower() + text[1:]
