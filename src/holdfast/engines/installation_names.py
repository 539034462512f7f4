"""Names outside of Holdfast: derived from the attempt id, so that a restarted server finds them. Pure."""

from __future__ import annotations

import base64
import hashlib
import re
from dataclasses import dataclass
from functools import lru_cache

_ID_PATTERN = re.compile(r"[a-z0-9]{6,64}\Z")
_ID_LENGTH = 6  # characters of the installation id in a name
_HASH_LENGTH = 26  # characters: 130 bits


@dataclass(frozen=True, slots=True)
class InstallationNames:
    installation_id: str

    def make_name(self, attempt_id: str) -> str:
        return _make_name(self.installation_id, attempt_id)

    @property
    def prefix(self) -> str:
        """What all names of this installation begin with."""
        if _ID_PATTERN.match(self.installation_id):
            return f"hf-{self.installation_id[:_ID_LENGTH]}-"
        return f"hf-{hashlib.sha256(self.installation_id.encode()).hexdigest()[:_ID_LENGTH]}-"


@lru_cache(maxsize=10_000)  # each look at a task needs its name
def _make_name(installation_id: str, attempt_id: str) -> str:
    digest = base64.b32encode(hashlib.sha256(attempt_id.encode("utf-8", "surrogateescape")).digest())
    return f"{InstallationNames(installation_id).prefix}{digest[:_HASH_LENGTH].decode().lower()}"
