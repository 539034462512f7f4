"""The sections of a job's page, in the order of their tabs. A new one is a line here: docs/dev/new-job-section.md."""

from __future__ import annotations

from holdfast.services.jobs.detail import Closeup

from ...visit import Visit
from . import artifacts as job_artifacts
from . import configuration as job_configuration
from . import events as job_events
from . import metrics as job_figures
from . import overview as job_overview
from . import tasks as job_tasks
from .view import Section


async def _nothing(visit: Visit, job: Closeup) -> None:
    """A page of its own loads its own."""


LOG = Section(key="log", title=lambda visit: visit.say("Log"), template="", load=_nothing, elsewhere="/log")

SECTIONS = (
    job_overview.SECTION,
    job_tasks.SECTION,
    LOG,
    job_figures.SECTION,
    job_events.SECTION,
    job_artifacts.SECTION,
    job_configuration.SECTION,
)
