"""Text in any dialect -> the one canonical Job, or every problem at once."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from holdfast.core.errors import InvalidJob, Problem
from holdfast.core.job import Dialect, Job
from holdfast.core.messages import msg

from .defaults import Defaults
from .document import Document, Node, read_document, with_lines
from .fields import At, Report, describe
from .holdfast_yaml import read_holdfast
from .openpai_v1 import read_openpai_v1
from .openpai_v2 import read_openpai_v2
from .primehub import PRIMEHUB_MARKS, is_resource, read_primehub

_READERS: dict[Dialect, Callable[[At, Defaults], Job]] = {
    Dialect.HOLDFAST: read_holdfast,
    Dialect.OPENPAI_V2: read_openpai_v2,
    Dialect.OPENPAI_V1: read_openpai_v1,
    Dialect.PRIMEHUB: read_primehub,
}
_NO_DEFAULTS = Defaults()


@dataclass(frozen=True, slots=True)
class Parsed:
    job: Job
    warnings: tuple[Problem, ...] = ()


def parse_job(text: str | bytes, *, dialect: Dialect | None = None, defaults: Defaults = _NO_DEFAULTS) -> Parsed:
    """Read a job file. InvalidJob carries everything that is wrong with it."""
    document = read_document(text)
    outcome = _try(document, dialect, defaults)
    if isinstance(outcome, InvalidJob) or outcome.warnings:
        outcome = _add_lines(outcome, document, dialect, defaults)
    if isinstance(outcome, InvalidJob):
        raise outcome
    return outcome


def recognise(document: Mapping[str, Any]) -> Dialect:
    """Which dialect a job file is written in, by its keys."""
    roles = document.get("taskRoles")
    roles = roles.value if isinstance(roles, Node) else roles
    if "protocolVersion" in document:
        return Dialect.OPENPAI_V2
    if "jobName" in document or isinstance(roles, list):
        return Dialect.OPENPAI_V1
    if roles is not None:
        return Dialect.OPENPAI_V2
    if is_resource(document) or ("roles" not in document and any(mark in document for mark in PRIMEHUB_MARKS)):
        return Dialect.PRIMEHUB
    return Dialect.HOLDFAST


def _try(document: Document, dialect: Dialect | None, defaults: Defaults) -> Parsed | InvalidJob:
    try:
        return _parse(document, dialect, defaults)
    except InvalidJob as invalid:
        return invalid


def _add_lines(
    outcome: Parsed | InvalidJob, document: Document, dialect: Dialect | None, defaults: Defaults
) -> Parsed | InvalidJob:
    """JSON gives no lines, so what is said about it is worked out again from a tree that has them."""
    located = with_lines(document)
    again = outcome if located is None else _try(located, dialect, defaults)
    return again if type(again) is type(outcome) else outcome


def _parse(document: Document, dialect: Dialect | None, defaults: Defaults) -> Parsed:
    root = document.root
    if not isinstance(root.value, dict):
        message = msg(
            "A job file is a mapping of fields such as name and command; this one is {root}", root=describe(root)
        )
        raise InvalidJob([Problem("", message, line=root.line or 1, rule="type", expected="object")])
    report = Report(document.problems)
    job = _READERS[dialect or recognise(root.value)](At(root, "", report), defaults)
    report.raise_problems()
    return Parsed(job, tuple(report.warnings))
