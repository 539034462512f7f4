"""Strict pydantic models of the shapes in `holdfast.api`: for OpenAPI, and for the tests that check answers."""

from __future__ import annotations

import dataclasses
import types
import typing
from collections.abc import Mapping
from enum import Enum
from functools import cache
from typing import Annotated, Any, TypeVar, Union

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, create_model

REFERENCE = "#/components/schemas/{model}"


def schemas_of(shapes: list[Any]) -> tuple[list[dict[str, Any]], dict[str, Any]]:
    """The JSON schema of each shape, and by name those they refer to."""
    adapters = [(place, "validation", TypeAdapter(strict_type(shape))) for place, shape in enumerate(shapes)]
    found, shared = TypeAdapter.json_schemas(adapters, ref_template=REFERENCE)  # type: ignore[arg-type]
    return [found[place, "validation"] for place in range(len(shapes))], shared.get("$defs", {})


def strict_type(kind: Any, filled: Mapping[Any, Any] = types.MappingProxyType({})) -> Any:
    """The same type with a strict model for each dataclass; `filled` are the type parameters."""
    if isinstance(kind, TypeVar):
        return strict_type(filled[kind])
    origin, args = typing.get_origin(kind), typing.get_args(kind)
    if dataclasses.is_dataclass(origin or kind):
        return _strict_model(kind)
    if origin is Annotated:
        known = [each for each in kind.__metadata__ if isinstance(each, type) and issubclass(each, Enum)]
        return known[0] if known else strict_type(args[0], filled)
    if origin is tuple:
        return list[strict_type(args[0], filled)]  # type: ignore[misc]
    if origin is Mapping:
        return dict[str, strict_type(args[1], filled)]  # type: ignore[misc]
    if origin in (Union, types.UnionType):
        return Union[tuple(strict_type(each, filled) for each in args)]  # noqa: UP007 - of any length
    return kind


@cache
def _strict_model(shape: Any) -> type[BaseModel]:
    """Every field is required, and no other is allowed."""
    cls, args = typing.get_origin(shape) or shape, typing.get_args(shape)
    filled = dict(zip(getattr(cls, "__parameters__", ()), args, strict=True))
    hints = typing.get_type_hints(cls, include_extras=True)
    fields: dict[str, Any] = {
        field.name: (strict_type(hints[field.name], filled), Field(description=_description(hints[field.name])))
        for field in dataclasses.fields(cls)
    }
    name = "".join(each.__name__ for each in (*args, cls))
    own = None if cls.__doc__.startswith(f"{cls.__name__}(") else cls.__doc__  # else made by `dataclass`
    return create_model(name, __config__=ConfigDict(extra="forbid"), __doc__=own, **fields)


def _description(hint: Any) -> str | None:
    return next((each for each in getattr(hint, "__metadata__", ()) if isinstance(each, str)), None)
