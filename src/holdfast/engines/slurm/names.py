"""Names of jobs in Slurm. Pure."""

from __future__ import annotations

from dataclasses import dataclass

from holdfast.engines.installation_names import InstallationNames


@dataclass(frozen=True, slots=True)
class JobNames(InstallationNames):
    @property
    def probe_name(self) -> str:
        """The name of probe jobs: no task has it."""
        return f"hf-probe-{self.prefix[3:-1]}"
