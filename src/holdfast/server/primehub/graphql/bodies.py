"""What a GraphQL request asks: a form with `query` and `variables` as JSON text, as the SDK sends it, or JSON."""

from __future__ import annotations

import asyncio
import json
import math
from dataclasses import dataclass, field
from typing import Any, NoReturn
from urllib.parse import parse_qsl

from starlette.requests import Request

from ..errors import PhError

MAX_QUERY_LENGTH = 32 * 1024  # characters
MAX_VALUES = 10_000  # in the variables of one request; clients send a few dozen
SMALL = 64 * 1024  # bytes; reading fewer takes less time than handing them to a thread costs
_FORM = "application/x-www-form-urlencoded"


@dataclass(frozen=True, slots=True)
class Asked:
    query: str
    variables: dict[str, Any] = field(default_factory=dict)
    operation: str | None = None


async def read_asked(request: Request) -> Asked:
    data = await request.body()
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if len(data) <= SMALL:
        return parse_asked(data, kind)
    return await asyncio.to_thread(parse_asked, data, kind)


def parse_asked(data: bytes, kind: str) -> Asked:
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError:
        raise PhError("The body is not UTF-8 text.") from None
    if kind == _FORM and text.lstrip().startswith("{"):  # as curl sends it with -d alone
        raise PhError(
            "There is no `query` in the body: it is JSON, but comes as a form."
            " Send it with the header `Content-Type: application/json`."
        )
    fields = _form(text) if kind == _FORM else _json(text, "The body")
    if isinstance(fields, list):
        raise PhError("Several operations in one request are not taken here. Send them one by one.")
    if not isinstance(fields, dict):
        raise PhError("The body must be a JSON object with `query` and `variables`, or a form with the same fields.")
    return _asked(fields)


def _asked(fields: dict[str, Any]) -> Asked:
    query, variables, operation = (fields.get(name) for name in ("query", "variables", "operationName"))
    if not isinstance(query, str) or not query.strip():
        raise PhError("There is no `query` in the body.")
    if isinstance(variables, str):
        variables = _json(variables, "`variables`") if variables.strip() else {}
    if not isinstance(variables, dict | None):
        raise PhError("`variables` must be a JSON object.")
    if operation is not None and not isinstance(operation, str):
        raise PhError("`operationName` must be a text.")
    if _has_many(variables):
        raise PhError(f"`variables` may hold at most {MAX_VALUES} values.")
    return Asked(query, variables or {}, operation or None)


def _has_many(data: Any) -> bool:
    """Each is checked against the schema, one after the other, while everybody waits."""
    left, count = [data], 0
    while left and count <= MAX_VALUES:
        value = left.pop()
        if isinstance(value, dict | list):
            count += len(value)
            left.extend(value.values() if isinstance(value, dict) else value)
    return count > MAX_VALUES


def _form(text: str) -> dict[str, Any]:
    try:
        return dict(parse_qsl(text, keep_blank_values=True, max_num_fields=10, errors="strict"))
    except (ValueError, UnicodeDecodeError):
        raise PhError("The body is not a form of a few fields in UTF-8.") from None


def _json(text: str, what: str) -> Any:
    try:
        found = json.loads(text, parse_constant=_refuse, parse_float=_finite)
        if "\\u" in text:
            json.dumps(found, ensure_ascii=False).encode()  # fails for half a character, which no database takes
    except (ValueError, RecursionError):
        raise PhError(f"{what} is not JSON.") from None
    return found


def _finite(digits: str) -> float:
    """1e999 would be infinity, which no JSON can say when it is read again."""
    number = float(digits)
    return number if math.isfinite(number) else _refuse(digits)


def _refuse(constant: str) -> NoReturn:
    raise ValueError(constant)
