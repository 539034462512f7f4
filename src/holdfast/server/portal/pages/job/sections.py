"""The sections of a job's page, in the order of their tabs. To add one, see docs/dev/new-job-section.md."""

from __future__ import annotations

from holdfast.services.jobs.job_pages import JobHeader

from ...visit import Visit
from . import artifacts, configuration, events, metrics, overview, tasks
from .view import Section


async def _load_empty_section(visit: Visit, job: JobHeader) -> None:
    """Load no data: the section is a separate page."""


LOG_SECTION = Section(
    key="log",
    title=lambda visit: visit.translate_text("Log"),
    template="",
    load=_load_empty_section,
    separate_path="/log",
)

SECTIONS = (
    overview.SECTION,
    tasks.SECTION,
    LOG_SECTION,
    metrics.SECTION,
    events.SECTION,
    artifacts.SECTION,
    configuration.SECTION,
)
