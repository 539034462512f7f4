"""Check of a job file before submission: its problems with their positions, and whether it could run."""

from __future__ import annotations

import asyncio
from dataclasses import asdict, dataclass
from typing import Any

from holdfast.core.errors import NotLoggedIn, Problem, TooLarge, UserError
from holdfast.core.job import JobFormat
from holdfast.core.messages import msg
from holdfast.jobspec.problem_lines import add_problem_lines
from holdfast.services.jobs.service import PlanResult
from holdfast.services.jobs.validation import list_problems

from ..visit import Visit

MAX_PROBLEMS = 100  # shown of one file
MAX_REASONS = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class FileProblem:
    field: str  # path in the job file: roles.worker.resources.cpu; empty: the whole file
    line: int | None
    message: str
    hint: str


@dataclass(frozen=True, slots=True, kw_only=True)
class FileCheck:
    problems: tuple[FileProblem, ...] = ()
    more: int = 0  # problems that are not shown
    warnings: tuple[str, ...] = ()
    verdict: str = ""  # now, wait, never; empty if the file is invalid
    headline: str = ""
    reasons: tuple[str, ...] = ()
    dialect: str = ""
    name: str = ""  # of the job
    group: str = ""
    yaml: str = ""  # of another format: converted to YAML, secrets masked

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


async def check_job_file(visit: Visit, text: str, group: str) -> FileCheck:
    try:
        check_job_file_size(visit, text)
        planned = await visit.services.jobs.plan(visit.current_actor, text, group=group or None)
    except NotLoggedIn:
        raise
    except UserError as error:
        return await build_refused_check(visit, error, text)
    return _build_accepted_check(visit, planned)


def check_job_file_size(visit: Visit, text: str) -> None:
    most = visit.services.settings.server.max_job_bytes
    if len(text.encode("utf-8", "replace")) > most:
        raise TooLarge(msg("A job file can have at most {limit} bytes", limit=most))


async def build_refused_check(visit: Visit, error: UserError, text: str) -> FileCheck:
    problems = await asyncio.to_thread(_locate_problems, error, text)
    listed = [
        FileProblem(
            field=problem.field,
            line=problem.line,
            message=visit.translate_message(problem.message),
            hint=visit.translate_message(problem.hint or ""),
        )
        for problem in problems[:MAX_PROBLEMS]
    ]
    count = len(problems)
    return FileCheck(
        problems=tuple(listed),
        more=count - len(listed),
        headline=visit.translate_plural("{count} error", "{count} errors", count, count=count),
    )


def _locate_problems(error: UserError, text: str) -> list[Problem]:
    """Return the problems with their line numbers, also those found after parsing."""
    problems = list_problems(error)
    if isinstance(error, TooLarge) or not any(problem.field and problem.line is None for problem in problems):
        return problems
    return list(add_problem_lines(text, problems))


def _build_accepted_check(visit: Visit, planned: PlanResult) -> FileCheck:
    headlines = {
        "now": visit.translate_text("It would start now."),
        "wait": visit.translate_text("It would wait in the queue."),
        "never": visit.translate_text("It can never run on this server."),
    }
    return FileCheck(
        warnings=tuple(visit.translate_message(warning) for warning in planned.warnings[:MAX_REASONS]),
        verdict=planned.verdict.answer,
        headline=headlines.get(planned.verdict.answer, ""),
        reasons=tuple(visit.translate_message(reason) for reason in planned.verdict.reasons[:MAX_REASONS]),
        dialect=planned.job.dialect.value,
        name=planned.job.name,
        group=planned.job.group,
        yaml="" if planned.job.dialect is JobFormat.HOLDFAST else planned.yaml,
    )
