"""Names and labels of containers: derived from the attempt id, so that a restarted server finds them. Pure."""

from __future__ import annotations

import base64
import hashlib
import re
from collections.abc import Mapping
from dataclasses import dataclass

INSTALLATION_LABEL = "holdfast.installation"
ATTEMPT_LABEL = "holdfast.attempt"
JOB_LABEL = "holdfast.job"
TASK_LABEL = "holdfast.task"

_ID_PATTERN = re.compile(r"[a-z0-9]{6,64}\Z")
_ID_LENGTH = 6  # characters of the installation id in a name
_HASH_LENGTH = 26  # characters: 130 bits


@dataclass(frozen=True, slots=True)
class ContainerNames:
    installation_id: str

    def make_name(self, attempt_id: str) -> str:
        digest = base64.b32encode(hashlib.sha256(attempt_id.encode("utf-8", "surrogateescape")).digest())
        return f"hf-{self._short_id}-{digest[:_HASH_LENGTH].decode().lower()}"

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

    @property
    def _short_id(self) -> str:
        if _ID_PATTERN.match(self.installation_id):
            return self.installation_id[:_ID_LENGTH]
        return hashlib.sha256(self.installation_id.encode()).hexdigest()[:_ID_LENGTH]
