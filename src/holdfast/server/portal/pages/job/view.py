"""What the job's page is made of: a head, and sections of which one is shown. See docs/dev/new-job-section.md."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlencode

from holdfast.core.exits.exit import Exit, ExitKind
from holdfast.core.exits.meanings import meaning_of
from holdfast.core.exits.table import hint_for
from holdfast.core.plan import NEVER_STARTED
from holdfast.services.jobs.detail import Closeup

from ...visit import Visit

Load = Callable[[Visit, Closeup], Awaitable[Any]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Section:
    """One of the tabs. Its data is loaded only when it is shown; its template reads it as `page.data`."""

    key: str  # ?section=KEY
    title: Callable[[Visit], str]
    template: str
    load: Load
    available: Callable[[Closeup], bool] = lambda job: True
    elsewhere: str = ""  # a page of its own, below the job's address, in place of template and load


def job_address(job_id: str, query: Mapping[str, Any] | None = None, **more: Any) -> str:
    """The job's page with these in its address; what is empty is left out."""
    said = {name: value for name, value in {**(query or {}), **more}.items() if value not in (None, "")}
    return f"/jobs/{job_id}" + (f"?{urlencode(said)}" if said else "")


@dataclass(frozen=True, slots=True, kw_only=True)
class ExitWords:
    """How something ended, for people."""

    kind: str
    code: int | None
    message: str
    meaning: str
    remedies: tuple[str, ...]
    urgent: bool = False  # the remedy is surely of use


def exit_words(visit: Visit, exit: Exit | None) -> ExitWords | None:
    if exit is None:
        return None
    known, hint = meaning_of(exit), hint_for(exit)
    told = exit.kind not in (ExitKind.SUCCEEDED, ExitKind.ATTEMPT_OVER, ExitKind.CANCELLED)
    remedies = (hint,) if hint and hint != " ".join(known.solution) else known.solution
    return ExitWords(
        kind=_how(visit, exit),
        code=exit.code,
        message=visit.tell(exit.message),
        meaning=visit.tell(known.reason) if told else "",
        remedies=tuple(visit.tell(text) for text in remedies) if told else (),
        urgent=bool(hint),
    )


def _how(visit: Visit, exit: Exit) -> str:
    if exit.kind is ExitKind.ATTEMPT_OVER and exit.message.startswith(NEVER_STARTED):
        return visit.say("Never started")
    return kind_words(visit)[exit.kind]


def kind_words(visit: Visit) -> dict[ExitKind, str]:
    return {
        ExitKind.SUCCEEDED: visit.say("Succeeded"),
        ExitKind.USER_ERROR: visit.say("The program failed"),
        ExitKind.OUT_OF_MEMORY: visit.say("Out of memory"),
        ExitKind.TIME_LIMIT: visit.say("Time limit"),
        ExitKind.REFUSED: visit.say("Could not be started"),
        ExitKind.PLATFORM: visit.say("The platform failed"),
        ExitKind.CANCELLED: visit.say("Cancelled"),
        ExitKind.ATTEMPT_OVER: visit.say("Others decided"),
    }
