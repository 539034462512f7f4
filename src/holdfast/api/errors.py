"""The one shape of errors."""

from dataclasses import dataclass
from typing import Annotated

from .messages import MessageData


@dataclass(frozen=True, slots=True, kw_only=True)
class Problem:
    field: Annotated[str, "Where in the job file, such as roles.worker.resources.cpu."]
    message: str
    message_data: Annotated[
        MessageData | None, "Id and arguments of `message`; null: it is not a message of the server."
    ] = None
    hint: str | None = None
    hint_data: Annotated[MessageData | None, "Id and arguments of `hint`; null: it is not a message of the server."] = (
        None
    )
    line: Annotated[int | None, "Line of the file, from 1; null: unknown."] = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ErrorBody:
    code: Annotated[str, "For programs: bad_request, invalid_job, not_logged_in, forbidden, not_found, ..."] = ""
    message: Annotated[str, "For people."] = ""
    message_data: Annotated[
        MessageData | None, "Id and arguments of `message`; null: it is not a message of the server."
    ] = None
    field: Annotated[str | None, "The part of the request that is wrong."] = None
    hint: Annotated[str | None, "What to try."] = None
    hint_data: Annotated[MessageData | None, "Id and arguments of `hint`; null: it is not a message of the server."] = (
        None
    )
    request_id: str = ""
    problems: Annotated[tuple[Problem, ...], "Everything wrong with a job file (invalid_job); else empty."] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Error:
    error: ErrorBody
