"""Names and labels of containers. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from holdfast.engines.installation_names import InstallationNames

INSTALLATION_LABEL = "holdfast.installation"
ATTEMPT_LABEL = "holdfast.attempt"
JOB_LABEL = "holdfast.job"
TASK_LABEL = "holdfast.task"


@dataclass(frozen=True, slots=True)
class ContainerNames(InstallationNames):
    def make_labels(self, attempt_id: str, job_id: str, task: str) -> dict[str, str]:
        return {
            INSTALLATION_LABEL: self.installation_id,
            ATTEMPT_LABEL: attempt_id,
            JOB_LABEL: job_id,
            TASK_LABEL: task,
        }

    def make_probe_name(self, image_id: str) -> str:
        """Return the name of a container that is only created to read files of an image."""
        return f"{self.make_name(image_id)}-probe"

    def make_probe_labels(self) -> dict[str, str]:
        return {INSTALLATION_LABEL: self.installation_id}

    def is_own(self, labels: Mapping[str, str]) -> bool:
        """Return whether this installation created a container with these labels."""
        return labels.get(INSTALLATION_LABEL) == self.installation_id
