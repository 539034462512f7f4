"""Python packages available in every task: read once, copied to where tasks can import them."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

DEBUG_TOOLS_FOLDER = "/pai_data/debug"  # additional path, from OpenPAI's debugging guide


@dataclass(frozen=True)
class PackageLibrary:
    """Files of some packages at the server's start: an upgrade does not change them in tasks."""

    packages: tuple[str, ...] = ()  # their folders on this machine

    @cached_property
    def files(self) -> tuple[tuple[str, bytes], ...]:
        """Paths within the library, with their content."""
        return tuple(sorted(_iter_source_files(self.packages)))

    def list_files(self, folder: str) -> list[tuple[str, bytes, int]]:
        """Return the files for layers: path, content, mode."""
        return [(f"{folder}/{path}", content, 0o644) for path, content in self.files]


def _iter_source_files(packages: Iterable[str]) -> Iterator[tuple[str, bytes]]:
    for package in map(Path, packages):
        for folder, below, names in os.walk(package):
            below[:] = [name for name in below if name != "__pycache__"]
            for path in (Path(folder) / name for name in names if name.endswith(".py")):
                yield str(path.relative_to(package.parent)), path.read_bytes()
