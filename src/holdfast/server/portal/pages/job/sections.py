"""The sections of a job's page, in the order of their tabs. To add one, see docs/dev/new-job-section.md."""

from __future__ import annotations

from holdfast.services.jobs.job_pages import JobHeader

from ...visit import Visit
from . import artifacts, configuration, events, metrics, overview, tasks
from .view import Section


async def _load_empty_section(visit: Visit, job: JobHeader) -> None:
    """Load no data: the section is a separate page."""


LOG = Section(
    key="log", title=lambda visit: visit.translate_text("Log"), template="", load=_load_empty_section, elsewhere="/log"
)

SECTIONS = (
    overview.SECTION,
    tasks.SECTION,
    LOG,
    metrics.SECTION,
    events.SECTION,
    artifacts.SECTION,
    configuration.SECTION,
)
