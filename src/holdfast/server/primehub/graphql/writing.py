"""What a query has found, as an answer: no longer than a client can be expected to take, and we to hold."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

from graphql import ExecutionResult
from starlette.responses import Response

from holdfast.server.answers import answer

from ..errors import PhError, answer_refusal
from .field_errors import describe
from .scalars import whole_numbers

LIGHT = 256 * 1024  # letters; an answer with less text is written quicker than it is handed to a thread
MAX_TEXT = 32 * 1024 * 1024  # letters of one answer
MAX_ERRORS = 100  # of one answer: every row of a list can have its own
AT_A_TIME = 2  # long ones


class Writer:
    def __init__(self) -> None:
        self._turns = asyncio.Semaphore(AT_A_TIME)

    async def write(self, result: ExecutionResult, request_id: str, *, long: bool) -> Response:
        """`long`: of so many values that even counting them takes time."""
        if not long and count_letters(result.data) <= LIGHT:
            return show(result, request_id)
        async with self._turns:
            return await asyncio.to_thread(show, result, request_id)


def show(result: ExecutionResult, request_id: str) -> Response:
    """Of what was asked with variables that do not fit there is no data at all."""
    if count_letters(result.data) > MAX_TEXT:
        return answer_refusal(PhError("The answer would be too long. Ask for fewer rows, or for fewer fields."), 400)
    shown: dict[str, Any] = {}
    if result.errors:
        shown["errors"] = [describe(error, request_id) for error in result.errors[:MAX_ERRORS]]
    status = 400 if result.data is None and result.errors and not any(each.path for each in result.errors) else 200
    return answer({**shown, "data": whole_numbers(result.data)}, status)


def count_letters(data: Any) -> int:
    """Of all texts in it. A field that is asked for a hundred times is one text in memory, but not in the answer."""
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
