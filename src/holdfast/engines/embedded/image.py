"""An imported or pulled image."""

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
    user: str = ""  # as in its configuration
    entrypoint: tuple[str, ...] = ()  # and `cmd`: not used, since tasks have their own commands
    cmd: tuple[str, ...] = ()
    digest: str = ""  # of its manifest in the registry; empty: imported
    private: bool = False  # pulled with credentials: others must prove that they have access, too
    layers: tuple[str, ...] = ()  # digests of the stored layers that its root filesystem links to

    def summarize(self, used_at: datetime | None = None) -> ImageSummary:
        return ImageSummary(
            name=self.name,
            size=self.size,
            created_at=self.created_at,
            source=self.source,
            pulled=bool(self.digest),
            used_at=used_at,
        )
