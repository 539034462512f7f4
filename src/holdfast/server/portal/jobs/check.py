"""What a page tells of a job file before it is submitted: every problem with its place, and whether it would run."""

from __future__ import annotations

import asyncio
from dataclasses import asdict, dataclass
from typing import Any

from holdfast.core.errors import NotLoggedIn, Problem, TooLarge, UserError
from holdfast.core.job import Dialect
from holdfast.core.messages import msg
from holdfast.jobspec.locating import with_lines_of
from holdfast.services.jobs.service import Planned
from holdfast.services.jobs.validation import problems_of

from ..visit import Visit

MAX_PROBLEMS = 100  # shown of one file
MAX_REASONS = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Trouble:
    field: str  # as a job file names it: roles.worker.resources.cpu; empty: the whole file
    line: int | None
    message: str
    hint: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Checked:
    problems: tuple[Trouble, ...] = ()
    more: int = 0  # problems that are not shown
    warnings: tuple[str, ...] = ()
    verdict: str = ""  # now, wait, never; empty when the file is refused
    headline: str = ""
    reasons: tuple[str, ...] = ()
    dialect: str = ""
    name: str = ""  # of the job
    group: str = ""
    yaml: str = ""  # of another format: the same in ours, secrets masked

    def for_scripts(self) -> dict[str, Any]:
        return asdict(self)


async def check(visit: Visit, text: str, group: str) -> Checked:
    try:
        need_size(visit, text)
        planned = await visit.services.jobs.plan(visit.who, text, group=group or None)
    except NotLoggedIn:
        raise
    except UserError as error:
        return await refused(visit, error, text)
    return _accepted(visit, planned)


def need_size(visit: Visit, text: str) -> None:
    most = visit.services.settings.server.max_job_bytes
    if len(text.encode("utf-8", "replace")) > most:
        raise TooLarge(msg("A job file may have at most {most} bytes", most=most))


async def refused(visit: Visit, error: UserError, text: str) -> Checked:
    problems = await asyncio.to_thread(_located, error, text)
    listed = [
        Trouble(
            field=problem.field,
            line=problem.line,
            message=visit.tell(problem.message),
            hint=visit.tell(problem.hint or ""),
        )
        for problem in problems[:MAX_PROBLEMS]
    ]
    count = len(problems)
    return Checked(
        problems=tuple(listed),
        more=count - len(listed),
        headline=visit.words.count("{count} thing to mend", "{count} things to mend", count).format(count=count),
    )


def _located(error: UserError, text: str) -> list[Problem]:
    """With the lines they are about, also of what was refused after the file was read."""
    problems = problems_of(error)
    if isinstance(error, TooLarge) or not any(problem.field and problem.line is None for problem in problems):
        return problems
    return list(with_lines_of(text, problems))


def _accepted(visit: Visit, planned: Planned) -> Checked:
    headlines = {
        "now": visit.say("It would start now."),
        "wait": visit.say("It would wait."),
        "never": visit.say("It can never run here."),
    }
    return Checked(
        warnings=tuple(visit.tell(warning) for warning in planned.warnings[:MAX_REASONS]),
        verdict=planned.verdict.answer,
        headline=headlines.get(planned.verdict.answer, ""),
        reasons=tuple(visit.tell(reason) for reason in planned.verdict.reasons[:MAX_REASONS]),
        dialect=planned.job.dialect.value,
        name=planned.job.name,
        group=planned.job.group,
        yaml="" if planned.job.dialect is Dialect.HOLDFAST else planned.yaml,
    )
