"""Pydantic models derived from the shapes in `holdfast.api`: they describe responses in OpenAPI and validate
requests."""

from __future__ import annotations

import dataclasses
import types
import typing
from collections.abc import Callable, Mapping, Sequence
from enum import Enum
from functools import cache
from typing import Annotated, Any, Literal, NotRequired, TypeVar, Union

from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    GetCoreSchemaHandler,
    Strict,
    TypeAdapter,
    create_model,
)
from pydantic_core import CoreSchema

from holdfast.api.limits import Limits

REFERENCE_TEMPLATE = "#/components/schemas/{model}"
T = TypeVar("T")


class RequestValidator:
    """Validates a request with the Pydantic model of its shape."""

    def __get_pydantic_core_schema__(self, shape: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        return handler.generate_schema(_derive_request_type(shape))


Body = Annotated[T, RequestValidator()]  # Body[NewGroup]: an instance with the fields that were sent


def get_sent_fields(body: Mapping[str, Any], *nullable: str) -> dict[str, Any]:
    """Return the fields of a request that were sent. Null is missing, except for `nullable`; lists become tuples."""
    return {
        key: tuple(value) if isinstance(value, list) else value
        for key, value in body.items()
        if value is not None or key in nullable
    }


def derive_schemas(shapes: list[Any]) -> tuple[list[dict[str, Any]], dict[str, Any]]:
    """Return the JSON schema of each response, and by name those they refer to."""
    adapters = [(place, "validation", TypeAdapter(derive_response_type(shape))) for place, shape in enumerate(shapes)]
    found, shared = TypeAdapter.json_schemas(adapters, ref_template=REFERENCE_TEMPLATE)  # type: ignore[arg-type]
    return [found[place, "validation"] for place in range(len(shapes))], shared.get("$defs", {})


def derive_response_type(shape: Any, filled: Mapping[Any, Any] = types.MappingProxyType({})) -> Any:
    """Return a type that accepts a response with exactly the fields of its shape; `filled` are type parameters."""
    if isinstance(shape, TypeVar):
        return derive_response_type(filled[shape])
    if dataclasses.is_dataclass(typing.get_origin(shape) or shape):
        return _derive_response_model(shape)
    return _convert_type_arguments(shape, lambda kind: derive_response_type(kind, filled))


@cache
def _derive_response_model(shape: Any) -> type[BaseModel]:
    cls, args = typing.get_origin(shape) or shape, typing.get_args(shape)
    filled = dict(zip(getattr(cls, "__parameters__", ()), args, strict=True))
    fields: dict[str, Any] = {
        name: (derive_response_type(hint, filled), Field(description=_find_description(hint)))
        for name, hint in _get_field_hints(cls).items()
    }
    name = "".join(each.__name__ for each in (*args, cls))
    own = None if cls.__doc__.startswith(f"{cls.__name__}(") else cls.__doc__  # else by `dataclass`
    return create_model(name, __config__=ConfigDict(extra="forbid", defer_build=True), __doc__=own, **fields)


def _derive_request_type(shape: Any) -> Any:
    if dataclasses.is_dataclass(shape) or typing.is_typeddict(shape):
        return _derive_request_model(shape)
    if isinstance(shape, type) and issubclass(shape, Enum):
        return Annotated[shape, Strict(False)]  # an enum by its value
    found = _convert_type_arguments(shape, _derive_request_type)
    limits = _find_metadata(shape, lambda each: isinstance(each, Limits))
    bounds = {key: value for key, value in dataclasses.asdict(limits).items() if value is not None} if limits else {}
    return Annotated[found, Field(**bounds)] if bounds else found


@cache
def _derive_request_model(shape: Any) -> Any:
    """Return a model that creates a `shape` from the fields that were sent. Unknown ones are rejected."""
    required = getattr(shape, "__required_keys__", ())
    defaults = {name: ... if name in required else None for name in _get_field_hints(shape)}
    if dataclasses.is_dataclass(shape):
        defaults |= {
            each.name: ... if each.default is dataclasses.MISSING else each.default
            for each in dataclasses.fields(shape)
        }
    fields: dict[str, Any] = {
        name: (_derive_request_type(hint), Field(defaults[name], description=_find_description(hint)))
        for name, hint in _get_field_hints(shape).items()
    }
    config = ConfigDict(extra="forbid", strict=True, allow_inf_nan=False, defer_build=True)
    name = shape.__name__ if typing.is_typeddict(shape) else f"{shape.__name__}Request"
    model = create_model(name, __config__=config, **fields)
    return Annotated[
        model, AfterValidator(lambda sent: shape(**{key: getattr(sent, key) for key in sent.model_fields_set}))
    ]


def _convert_type_arguments(kind: Any, convert: Callable[[Any], Any]) -> Any:
    """Convert the parts of a type. The known values of a text in `Annotated` replace it."""
    origin, args = typing.get_origin(kind), typing.get_args(kind)
    if origin is Annotated:
        known = _find_metadata(kind, lambda each: isinstance(each, type) or typing.get_origin(each) is Literal)
        return convert(args[0]) if known is None else _replace_text(args[0], convert(known))
    if origin in (tuple, Sequence):
        return list[convert(args[0])]  # type: ignore[misc]
    if origin is Mapping:
        return dict[convert(args[0]), convert(args[1])]  # type: ignore[misc]
    if origin in (Union, types.UnionType):
        return Union[tuple(convert(each) for each in args)]  # noqa: UP007 - of any length
    return kind


def _replace_text(text: Any, known: Any) -> Any:
    return Union[known, None] if type(None) in typing.get_args(text) else known  # noqa: UP007 - of what is no class


def _get_field_hints(shape: Any) -> dict[str, Any]:
    hints = typing.get_type_hints(shape, include_extras=True)
    wrapped = {key: typing.get_args(hint)[0] for key, hint in hints.items() if typing.get_origin(hint) is NotRequired}
    return {**hints, **wrapped}


def _find_description(hint: Any) -> str | None:
    found: str | None = _find_metadata(hint, lambda each: isinstance(each, str))
    return found


def _find_metadata(hint: Any, wanted: Callable[[Any], bool]) -> Any:
    return next(filter(wanted, getattr(hint, "__metadata__", ())), None)
