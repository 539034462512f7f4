"""Error responses."""

from dataclasses import dataclass
from typing import Annotated

from .messages import MessageData


@dataclass(frozen=True, slots=True, kw_only=True)
class Problem:
    field: Annotated[str, "Field of the job file, such as roles.worker.resources.cpu."]
    message: str
    message_data: Annotated[MessageData | None, "Id and arguments of `message`; null: not translatable."] = None
    hint: str | None = None
    hint_data: Annotated[MessageData | None, "Id and arguments of `hint`; null: not translatable."] = None
    line: Annotated[int | None, "Line of the file, from 1; null: unknown."] = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ErrorBody:
    code: Annotated[str, "Error code: bad_request, invalid_job, not_logged_in, forbidden, not_found, ..."] = ""
    message: Annotated[str, "Human-readable message."] = ""
    message_data: Annotated[MessageData | None, "Id and arguments of `message`; null: not translatable."] = None
    field: Annotated[str | None, "Invalid part of the request."] = None
    hint: Annotated[str | None, "How to fix it."] = None
    hint_data: Annotated[MessageData | None, "Id and arguments of `hint`; null: not translatable."] = None
    request_id: str = ""
    problems: Annotated[tuple[Problem, ...], "All problems of a job file (invalid_job), else empty."] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Error:
    error: ErrorBody
