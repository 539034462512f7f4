"""Text in any file format -> the canonical Job, or all problems at once."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from holdfast.core.errors import InvalidJob, Problem
from holdfast.core.job import Job, JobFormat
from holdfast.core.messages import msg

from .defaults import Defaults
from .document import Document, DocumentNode, decode_text, parse_document, reparse_with_lines
from .fields import FieldValue, ProblemReport, describe_node
from .holdfast_yaml import read_holdfast_job
from .openpai_v1 import read_openpai_v1_job
from .openpai_v2 import read_openpai_v2_job
from .primehub import PRIMEHUB_KEYS, is_kubernetes_resource, read_primehub_job
from .sbatch import is_plain_script, is_sbatch_script, read_sbatch_job

_READERS: dict[JobFormat, Callable[[FieldValue, Defaults], Job]] = {
    JobFormat.HOLDFAST: read_holdfast_job,
    JobFormat.OPENPAI_V2: read_openpai_v2_job,
    JobFormat.OPENPAI_V1: read_openpai_v1_job,
    JobFormat.PRIMEHUB: read_primehub_job,
}
_NO_DEFAULTS = Defaults()


@dataclass(frozen=True, slots=True)
class ParsedJob:
    job: Job
    warnings: tuple[Problem, ...] = ()


def parse_job(text: str | bytes, *, dialect: JobFormat | None = None, defaults: Defaults = _NO_DEFAULTS) -> ParsedJob:
    """Parse a job file; InvalidJob contains all problems."""
    if dialect in (None, JobFormat.SBATCH):
        text = decode_text(text)
        if dialect or is_sbatch_script(text):
            return _parse_script(text, defaults)
        if is_plain_script(text):
            message = msg("A script must have `#SBATCH` lines before its first command")
            raise InvalidJob([Problem("", message, msg("Use --dialect sbatch to submit it as it is."), 1, "contains")])
    document = parse_document(text)
    outcome = _try_parse(document, dialect, defaults)
    if isinstance(outcome, InvalidJob) or outcome.warnings:
        outcome = _add_lines(outcome, document, dialect, defaults)
    if isinstance(outcome, InvalidJob):
        raise outcome
    return outcome


def _parse_script(text: str, defaults: Defaults) -> ParsedJob:
    report = ProblemReport()
    job = read_sbatch_job(text, report, defaults)
    report.raise_problems()
    report.warnings.sort(key=lambda warning: warning.line or 0)
    return ParsedJob(job, tuple(report.warnings))


def detect_format(document: Mapping[str, Any]) -> JobFormat:
    roles = document.get("taskRoles")
    roles = roles.value if isinstance(roles, DocumentNode) else roles
    if "protocolVersion" in document:
        return JobFormat.OPENPAI_V2
    if "jobName" in document or isinstance(roles, list):
        return JobFormat.OPENPAI_V1
    if roles is not None:
        return JobFormat.OPENPAI_V2
    if is_kubernetes_resource(document) or (
        "roles" not in document and any(mark in document for mark in PRIMEHUB_KEYS)
    ):
        return JobFormat.PRIMEHUB
    return JobFormat.HOLDFAST


def _try_parse(document: Document, dialect: JobFormat | None, defaults: Defaults) -> ParsedJob | InvalidJob:
    try:
        return _build_parsed_job(document, dialect, defaults)
    except InvalidJob as invalid:
        return invalid


def _add_lines(
    outcome: ParsedJob | InvalidJob, document: Document, dialect: JobFormat | None, defaults: Defaults
) -> ParsedJob | InvalidJob:
    """Parse JSON again with line numbers, for its problems."""
    located = reparse_with_lines(document)
    again = outcome if located is None else _try_parse(located, dialect, defaults)
    return again if type(again) is type(outcome) else outcome


def _build_parsed_job(document: Document, dialect: JobFormat | None, defaults: Defaults) -> ParsedJob:
    root = document.root
    if not isinstance(root.value, dict):
        message = msg(
            "A job file must be a mapping with fields such as name and command, not {root}", root=describe_node(root)
        )
        raise InvalidJob([Problem("", message, line=root.line or 1, rule="type", expected="object")])
    report = ProblemReport(document.problems)
    job = _READERS[dialect or detect_format(root.value)](FieldValue(root, "", report), defaults)
    report.raise_problems()
    return ParsedJob(job, tuple(report.warnings))
