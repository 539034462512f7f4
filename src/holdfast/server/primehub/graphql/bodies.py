"""The body of a GraphQL request: a form with `query` and `variables` as JSON text, as the SDK sends it, or JSON."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qsl

from starlette.requests import Request

from holdfast.server.strict_json import parse_strict_json

from ..errors import PrimeHubError

MAX_QUERY_LENGTH = 32 * 1024  # characters
MAX_VARIABLE_VALUES = 10_000  # in the variables of one request; clients send a few dozen
MAX_INLINE_PARSE_SIZE = 64 * 1024  # bytes; for smaller ones, a thread costs more time than it saves
_FORM_CONTENT_TYPE = "application/x-www-form-urlencoded"


@dataclass(frozen=True, slots=True)
class GraphQLRequest:
    query: str
    variables: dict[str, Any] = field(default_factory=dict)
    operation: str | None = None


async def read_graphql_request(request: Request) -> GraphQLRequest:
    data = await request.body()
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if len(data) <= MAX_INLINE_PARSE_SIZE:
        return parse_graphql_request(data, kind)
    return await asyncio.to_thread(parse_graphql_request, data, kind)


def parse_graphql_request(data: bytes, kind: str) -> GraphQLRequest:
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError:
        raise PrimeHubError("The request body is not UTF-8 text.") from None
    if kind == _FORM_CONTENT_TYPE and text.lstrip().startswith("{"):  # as curl sends it with -d only
        raise PrimeHubError(
            "`query` is missing: the body is JSON, but sent as a form."
            " Send it with the header `Content-Type: application/json`."
        )
    fields = _parse_form(text) if kind == _FORM_CONTENT_TYPE else _parse_json(text, "The request body")
    if isinstance(fields, list):
        raise PrimeHubError("Batched operations are not supported. Send one operation per request.")
    if not isinstance(fields, dict):
        raise PrimeHubError("The request body must be a JSON object or a form with `query` and `variables`.")
    return _build_graphql_request(fields)


def _build_graphql_request(fields: dict[str, Any]) -> GraphQLRequest:
    query, variables, operation = (fields.get(name) for name in ("query", "variables", "operationName"))
    if not isinstance(query, str) or not query.strip():
        raise PrimeHubError("`query` is missing in the request body.")
    if isinstance(variables, str):
        variables = _parse_json(variables, "`variables`") if variables.strip() else {}
    if not isinstance(variables, dict | None):
        raise PrimeHubError("`variables` must be a JSON object.")
    if operation is not None and not isinstance(operation, str):
        raise PrimeHubError("`operationName` must be text.")
    if _has_too_many_values(variables):
        raise PrimeHubError(f"`variables` has more than {MAX_VARIABLE_VALUES} values.")
    return GraphQLRequest(query, variables or {}, operation or None)


def _has_too_many_values(data: Any) -> bool:
    """Return whether there are too many values: each is validated by the schema, which blocks other requests."""
    left, count = [data], 0
    while left and count <= MAX_VARIABLE_VALUES:
        value = left.pop()
        if isinstance(value, dict | list):
            count += len(value)
            left.extend(value.values() if isinstance(value, dict) else value)
    return count > MAX_VARIABLE_VALUES


def _parse_form(text: str) -> dict[str, Any]:
    try:
        return dict(parse_qsl(text, keep_blank_values=True, max_num_fields=10, errors="strict"))
    except (ValueError, UnicodeDecodeError):
        raise PrimeHubError("The request body is not a valid UTF-8 form with a few fields.") from None


def _parse_json(text: str, what: str) -> Any:
    try:
        return parse_strict_json(text)
    except ValueError:
        raise PrimeHubError(f"{what} is not valid JSON.") from None
