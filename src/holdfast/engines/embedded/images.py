"""Images on the shelf: unpacked root filesystems under home/images, each with what its archive said of itself."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from holdfast.core.job import HOST_IMAGE
from holdfast.engines.base import ImageInfo

from .folder import TaskFolder
from .render import Root
from .site import Site


@dataclass(frozen=True, slots=True, kw_only=True)
class Image:
    name: str
    rootfs: str
    shell: str | None
    env: dict[str, str] = field(default_factory=dict)
    workdir: str = ""


class ImageShelf:
    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def is_host(self, name: str) -> bool:
        return name == HOST_IMAGE

    def find(self, name: str) -> Image | None:
        return None

    def names(self) -> list[str]:
        return [HOST_IMAGE]

    def list(self) -> list[ImageInfo]:
        return [ImageInfo(name=HOST_IMAGE, size=None, created_at=None, source="this machine")]

    def root(self, image: Image, folder: TaskFolder, site: Site) -> Root:
        raise NotImplementedError
