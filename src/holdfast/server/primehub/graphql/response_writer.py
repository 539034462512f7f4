"""Query results as responses, with limits on their size."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

from graphql import ExecutionResult
from starlette.responses import Response

from holdfast.server.responses import respond_json

from ..errors import PrimeHubError, respond_graphql_error
from .field_errors import field_error_to_json
from .scalars import to_whole_numbers

MAX_INLINE_TEXT_LENGTH = 256 * 1024  # characters; for shorter responses, a thread costs more time than it saves
MAX_RESPONSE_LENGTH = 32 * 1024 * 1024  # characters of one response
MAX_ERRORS = 100  # in one response: every row of a list can have its own
MAX_WRITER_THREADS = 2  # long responses


class ResponseWriter:
    def __init__(self) -> None:
        self._writer_slots = asyncio.Semaphore(MAX_WRITER_THREADS)

    async def build_response(self, result: ExecutionResult, request_id: str, *, long: bool) -> Response:
        """Return the response. `long`: it has so many values that even counting them takes time."""
        if not long and count_characters(result.data) <= MAX_INLINE_TEXT_LENGTH:
            return result_to_response(result, request_id)
        async with self._writer_slots:
            return await asyncio.to_thread(result_to_response, result, request_id)


def result_to_response(result: ExecutionResult, request_id: str) -> Response:
    """Render the result. If the variables are not valid, there is no data."""
    if count_characters(result.data) > MAX_RESPONSE_LENGTH:
        return respond_graphql_error(
            PrimeHubError("The response is too long. Request fewer rows or fewer fields."), 400
        )
    shown: dict[str, Any] = {}
    if result.errors:
        shown["errors"] = [field_error_to_json(error, request_id) for error in result.errors[:MAX_ERRORS]]
    status = 400 if result.data is None and result.errors and not any(each.path for each in result.errors) else 200
    return respond_json({**shown, "data": to_whole_numbers(result.data)}, status)


def count_characters(data: Any) -> int:
    """Count the characters of all texts. A repeated field is one text in memory, but not in the response."""
    total, left = 0, [data]
    while left:
        value = left.pop()
        if isinstance(value, str):
            total += len(value)
        elif isinstance(value, Mapping):
            left.extend(value.values())
        elif isinstance(value, list | tuple):
            left.extend(value)
    return total
