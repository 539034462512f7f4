"""The job's file: as it would be run again, and as it was submitted. Secrets are masked in both."""

from __future__ import annotations

from dataclasses import dataclass

from holdfast.services.jobs.detail import Closeup

from ...visit import Visit
from .view import Section, job_address

MAX_SHOWN = 200 * 1024  # characters; a download has all
YAML, SOURCE = "yaml", "source"


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfigurationData:
    shown: str  # yaml or source
    text: str
    cut: bool
    addresses: dict[str, str]
    download: str
    file_name: str


async def _load(visit: Visit, job: Closeup) -> ConfigurationData:
    id = job.record.summary.id
    shown = SOURCE if visit.request.query_params.get("as") == SOURCE else YAML
    text = job.record.source if shown == SOURCE else await visit.services.jobs.yaml(visit.who, id)
    return ConfigurationData(
        shown=shown,
        text=text[:MAX_SHOWN],
        cut=len(text) > MAX_SHOWN,
        addresses={each: job_address(id, {"section": "configuration", "as": each}) for each in (YAML, SOURCE)},
        download=f"/api/v1/jobs/{id}/{shown}",
        file_name=f"{id}{_suffix(text) if shown == SOURCE else '.yaml'}",
    )


def _suffix(source: str) -> str:
    return ".json" if source.lstrip().startswith("{") else ".yaml"


SECTION = Section(
    key="configuration",
    title=lambda visit: visit.say("Configuration"),
    template="job/_configuration.html",
    load=_load,
)
