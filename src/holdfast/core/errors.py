"""The exception tree.

    HoldfastError
    ├── UserError            safe to show; says what happened, where, and what to try
    │   ├── InvalidJob       a job file with one or more problems (carries them all)
    │   ├── NotFound
    │   ├── Forbidden
    │   ├── NotLoggedIn
    │   ├── Conflict
    │   ├── Expired          it existed once and was removed on a known date
    │   └── TooLarge
    └── EngineError          an engine could not do what it was asked; never shown raw

Anything else that reaches a border becomes "internal error" with a request id.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from .messages import join_messages, msg


class HoldfastError(Exception):
    """Base class of all errors that are raised on purpose."""


class UserError(HoldfastError):
    """An error or refusal that the user can act on."""

    code = "bad_request"

    def __init__(self, message: str, *, field: str | None = None, hint: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.field = field
        self.hint = hint


class NotFound(UserError):
    code = "not_found"


class JobNotFound(NotFound):
    """The job does not exist, or the user may not view it."""


class Forbidden(UserError):
    code = "forbidden"


class NotLoggedIn(UserError):
    code = "not_logged_in"


class Conflict(UserError):
    code = "conflict"


class Expired(UserError):
    code = "expired"


class TooLarge(UserError):
    code = "too_large"


@dataclass(frozen=True, slots=True)
class Problem:
    """One error in a job file."""

    field: str  # path such as roles.worker.resources.cpu; "" for the whole file
    message: str
    hint: str | None = None
    line: int | None = None  # 1-based, if known
    rule: str = ""  # the violated rule, as in JSON Schema where possible: required, type, minimum
    expected: Any = None  # what the rule requires: a limit, a type, a pattern, the choices


class InvalidJob(UserError):
    """A job file that is not valid, with all problems found in it."""

    code = "invalid_job"

    def __init__(self, problems: list[Problem] | tuple[Problem, ...]) -> None:
        first = problems[0]
        more = msg(" (and {count} more)", count=len(problems) - 1) if len(problems) > 1 else ""
        message = join_messages(": ", filter(None, (first.field, first.message)))
        super().__init__(message + more, field=first.field or None, hint=first.hint)
        self.problems = tuple(problems)


class EngineError(HoldfastError):
    """An engine could not perform a request."""


def sanitize_output(output: bytes) -> str:
    """Return a program's output for a message: on one line, without terminal control characters."""
    text = " ".join(output.decode("utf-8", "replace").split())
    return "".join(letter if letter.isprintable() else "?" for letter in text)
