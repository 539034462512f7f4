"""The job of a file, read as a server would; sizes that only a server knows are taken as they come."""

from __future__ import annotations

from dataclasses import replace

from holdfast.core.errors import InvalidJob
from holdfast.core.job import Dialect, Job, Resources
from holdfast.jobspec import Defaults, Parsed, parse_job
from holdfast.settings import Settings

from .report import About, Remarks


def read_job(
    text: bytes, settings: Settings, remarks: Remarks, *, dialect: Dialect | None = None, user: str | None = None
) -> Job:
    """InvalidJob when it is none."""
    usual = Resources(cpu=settings.jobs.default_cpu, memory=settings.jobs.default_memory)
    defaults = Defaults(resources=usual, user=user, instance_types=_sizes(settings))
    parsed = _parse(text, dialect, defaults, remarks)
    for warning in parsed.warnings:
        said = f"{warning.field}: {warning.message}" if warning.field else warning.message
        remarks.warn(About.FORMAT, said, warning.hint or "")
    return parsed.job


def _parse(text: bytes, dialect: Dialect | None, defaults: Defaults, remarks: Remarks) -> Parsed:
    try:
        return parse_job(text, dialect=dialect, defaults=defaults)
    except InvalidJob as error:
        if not all(problem.rule == "reference" and _is_size(problem.field) for problem in error.problems):
            raise
        unknown = {str(problem.expected) for problem in error.problems}
    sizes = {**defaults.instance_types, **dict.fromkeys(unknown, defaults.resources)}
    parsed = parse_job(text, dialect=dialect, defaults=replace(defaults, instance_types=sizes))
    for name in sorted(unknown):
        remarks.note(About.RESOURCES, f"The instance type {name} is not known here: it runs with the usual resources")
    return parsed


def _is_size(field: str) -> bool:
    return field.rpartition(".")[2] in ("instanceType", "instance_type")


def _sizes(settings: Settings) -> dict[str, Resources]:
    return {
        name: Resources(
            cpu=size.cpu,
            memory=size.memory,
            gpu=size.gpu,
            cpu_request=size.cpu_request,
            memory_request=size.memory_request,
        )
        for name, size in settings.jobs.instance_types.items()
    }
