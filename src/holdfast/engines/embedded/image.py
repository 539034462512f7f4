"""An imported image."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime

from holdfast.engines.base import ImageSummary


@dataclass(frozen=True, slots=True, kw_only=True)
class Image:
    name: str
    rootfs: str
    shell: str | None  # a path inside; None if it has none
    size: int
    created_at: datetime
    source: str
    env: dict[str, str] = field(default_factory=dict)
    workdir: str = ""

    @property
    def summary(self) -> ImageSummary:
        return ImageSummary(name=self.name, size=self.size, created_at=self.created_at, source=self.source)
