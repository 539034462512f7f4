"""The job file: as it would be rerun, and as submitted. Secrets are masked in both."""

from __future__ import annotations

from dataclasses import dataclass

from holdfast.services.jobs.job_pages import JobHeader

from ...visit import Visit
from .view import Section, build_job_address

MAX_SHOWN_LENGTH = 200 * 1024  # characters; a download has all
YAML, SOURCE = "yaml", "source"


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfigurationView:
    shown: str  # yaml or source
    text: str
    cut: bool
    addresses: dict[str, str]
    download: str
    file_name: str


async def _load_configuration(visit: Visit, job: JobHeader) -> ConfigurationView:
    id = job.record.summary.id
    shown = SOURCE if visit.query.get("as") == SOURCE else YAML
    text = job.record.source if shown == SOURCE else await visit.services.jobs.export_yaml(visit.current_actor, id)
    return ConfigurationView(
        shown=shown,
        text=text[:MAX_SHOWN_LENGTH],
        cut=len(text) > MAX_SHOWN_LENGTH,
        addresses={each: build_job_address(id, {"section": "configuration", "as": each}) for each in (YAML, SOURCE)},
        download=f"/api/v1/jobs/{id}/{shown}",
        file_name=f"{id}{_get_file_suffix(text)}",
    )


def _get_file_suffix(source: str) -> str:
    if source.startswith("#!"):
        return ".sh"
    return ".json" if source.lstrip().startswith("{") else ".yaml"


SECTION = Section(
    key="configuration",
    title=lambda visit: visit.translate_text("Configuration"),
    template="job/_configuration.html",
    load=_load_configuration,
)
