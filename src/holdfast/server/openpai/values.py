"""Values in a body, held to their kinds. Forms know text only: there "true" is a truth, and one text a list of it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from .errors import PaiError

Body = Mapping[str, Any]


def text_in(body: Body, name: str) -> str | None:
    """None when it is not there."""
    value = body.get(name)
    if value is not None and not isinstance(value, str):
        raise bad(f"{name} must be a text.")
    return value


def need_text(body: Body, name: str) -> str:
    value = text_in(body, name)
    if not value:
        raise bad(f"{name} is missing.")
    return value


def truth_in(body: Body, name: str) -> bool | None:
    value = body.get(name)
    if isinstance(value, str) and value.lower() in ("true", "false"):
        return value.lower() == "true"
    if value is not None and not isinstance(value, bool):
        raise bad(f"{name} must be true or false.")
    return value


def names_in(body: Body, name: str) -> list[str] | None:
    """A list of texts; older clients send them as one, with commas."""
    value = body.get(name)
    if isinstance(value, str):
        value = [part.strip() for part in value.split(",") if part.strip()]
    if value is not None and not (isinstance(value, list) and all(isinstance(each, str) for each in value)):
        raise bad(f"{name} must be a list of names.")
    return value


def object_in(body: Body, name: str) -> dict[str, Any] | None:
    value = body.get(name)
    if value == [] or value == "":
        return {}  # how a form says it
    if value is not None and not isinstance(value, dict):
        raise bad(f"{name} must be an object.")
    return value


def need_object(body: Body, name: str) -> dict[str, Any]:
    value = object_in(body, name)
    if value is None:
        raise bad(f"{name} is missing.")
    return value


def bad(message: str) -> PaiError:
    return PaiError(400, "InvalidParametersError", message)
