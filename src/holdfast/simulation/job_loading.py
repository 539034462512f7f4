"""Load a job file as a server does; unknown instance types are accepted."""

from __future__ import annotations

from dataclasses import replace

from holdfast.core.errors import InvalidJob
from holdfast.core.job import Job, JobFormat, Resources
from holdfast.jobspec import Defaults, ParsedJob, parse_job
from holdfast.settings import Settings

from .report import Remarks, RemarkTopic


def parse_job_file(
    text: bytes, settings: Settings, remarks: Remarks, *, dialect: JobFormat | None = None, user: str | None = None
) -> Job:
    """Parse a job file; raises InvalidJob."""
    usual = Resources(cpu=settings.jobs.default_cpu, memory=settings.jobs.default_memory)
    defaults = Defaults(resources=usual, user=user, instance_types=_build_instance_types(settings))
    parsed = _parse_job_text(text, dialect, defaults, remarks)
    for warning in parsed.warnings:
        message = f"{warning.field}: {warning.message}" if warning.field else warning.message
        remarks.add_warning(RemarkTopic.FORMAT, message, warning.hint or "")
    return parsed.job


def _parse_job_text(text: bytes, dialect: JobFormat | None, defaults: Defaults, remarks: Remarks) -> ParsedJob:
    try:
        return parse_job(text, dialect=dialect, defaults=defaults)
    except InvalidJob as error:
        fields = {problem.field.rpartition(".")[2] for problem in error.problems if problem.rule == "reference"}
        if not fields <= {"instanceType", "instance_type"} or any(each.rule != "reference" for each in error.problems):
            raise
        unknown = {str(problem.expected) for problem in error.problems}
    sizes = {**defaults.instance_types, **dict.fromkeys(unknown, defaults.resources)}
    parsed = parse_job(text, dialect=dialect, defaults=replace(defaults, instance_types=sizes))
    for name in sorted(unknown):
        remarks.add_note(
            RemarkTopic.RESOURCES,
            f"The instance type {name} is unknown to the simulation: the default resources are used",
        )
    return parsed


def _build_instance_types(settings: Settings) -> dict[str, Resources]:
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
