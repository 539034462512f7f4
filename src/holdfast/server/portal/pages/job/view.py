"""Parts of the job page: a head, and sections, one of which is shown. See docs/dev/new-job-section.md."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlencode

from holdfast.core.exits.exit import Exit, ExitKind
from holdfast.core.exits.meanings import find_meaning
from holdfast.core.exits.table import find_hint
from holdfast.core.planning.builder import NEVER_STARTED_PREFIX
from holdfast.services.jobs.job_pages import JobHeader

from ...visit import Visit

SectionLoader = Callable[[Visit, JobHeader], Awaitable[Any]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Section:
    """A tab of the page. Its data is loaded when it is shown; its template reads it as `page.data`."""

    key: str  # ?section=KEY
    title: Callable[[Visit], str]
    template: str
    load: SectionLoader
    available: Callable[[JobHeader], bool] = lambda job: True
    separate_path: str = ""  # a separate page below the job's path, instead of template and load


def build_job_address(job_id: str, query: Mapping[str, Any] | None = None, **more: Any) -> str:
    """Return the URL of the job's page with these parameters, without empty ones."""
    parameters = encode_query({**(query or {}), **more})
    return f"/jobs/{job_id}" + (f"?{parameters}" if parameters else "")


def encode_query(parameters: Mapping[str, Any]) -> str:
    """Encode the parameters, without empty ones."""
    return urlencode({name: value for name, value in parameters.items() if value not in (None, "")})


@dataclass(frozen=True, slots=True, kw_only=True)
class ExitDescription:
    """The text about an exit."""

    kind: str
    code: int | None
    message: str
    meaning: str
    remedies: tuple[str, ...]


def describe_exit(visit: Visit, exit: Exit | None) -> ExitDescription | None:
    if exit is None:
        return None
    known, hint = find_meaning(exit), find_hint(exit)
    explained = exit.kind not in (ExitKind.SUCCEEDED, ExitKind.ATTEMPT_OVER, ExitKind.CANCELLED)
    remedies = (hint,) if hint and hint != " ".join(known.solution) else known.solution
    return ExitDescription(
        kind=_get_exit_kind_label(visit, exit),
        code=exit.code,
        message=visit.translate_message(exit.message),
        meaning=visit.translate_message(known.reason) if explained else "",
        remedies=tuple(visit.translate_message(text) for text in remedies) if explained else (),
    )


def _get_exit_kind_label(visit: Visit, exit: Exit) -> str:
    if exit.kind is ExitKind.ATTEMPT_OVER and exit.message.startswith(NEVER_STARTED_PREFIX):
        return visit.translate_text("Never started")
    return build_exit_kind_labels(visit)[exit.kind]


def build_exit_kind_labels(visit: Visit) -> dict[ExitKind, str]:
    return {
        ExitKind.SUCCEEDED: visit.translate_text("Succeeded"),
        ExitKind.USER_ERROR: visit.translate_text("Program failed"),
        ExitKind.OUT_OF_MEMORY: visit.translate_text("Out of memory"),
        ExitKind.TIME_LIMIT: visit.translate_text("Time limit"),
        ExitKind.REFUSED: visit.translate_text("Failed to start"),
        ExitKind.PLATFORM: visit.translate_text("Platform failure"),
        ExitKind.CANCELLED: visit.translate_text("Cancelled"),
        ExitKind.ATTEMPT_OVER: visit.translate_text("Ended by other tasks"),
    }
