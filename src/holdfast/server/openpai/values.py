"""Typed values of a body. Forms have text only: there "true" is a boolean, and a text a list of one item."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from .errors import PaiError

Body = Mapping[str, Any]


def get_text(body: Body, name: str) -> str | None:
    """Return the text, or None when the field is missing."""
    value = body.get(name)
    if value is not None and not isinstance(value, str):
        raise build_bad_value_error(f"{name} must be text.")
    return value


def require_text(body: Body, name: str) -> str:
    value = get_text(body, name)
    if not value:
        raise build_bad_value_error(f"{name} is missing.")
    return value


def get_boolean(body: Body, name: str) -> bool | None:
    value = body.get(name)
    if isinstance(value, str) and value.lower() in ("true", "false"):
        return value.lower() == "true"
    if value is not None and not isinstance(value, bool):
        raise build_bad_value_error(f"{name} must be true or false.")
    return value


def get_names(body: Body, name: str) -> list[str] | None:
    """Return a list of texts; older clients send one text with commas."""
    value = body.get(name)
    if isinstance(value, str):
        value = [part.strip() for part in value.split(",") if part.strip()]
    if value is not None and not (isinstance(value, list) and all(isinstance(each, str) for each in value)):
        raise build_bad_value_error(f"{name} must be a list of names.")
    return value


def get_object(body: Body, name: str) -> dict[str, Any] | None:
    value = body.get(name)
    if value == [] or value == "":
        return {}  # an empty object in a form
    if value is not None and not isinstance(value, dict):
        raise build_bad_value_error(f"{name} must be an object.")
    return value


def require_object(body: Body, name: str) -> dict[str, Any]:
    value = get_object(body, name)
    if value is None:
        raise build_bad_value_error(f"{name} is missing.")
    return value


def build_bad_value_error(message: str) -> PaiError:
    return PaiError(400, "InvalidParametersError", message)
