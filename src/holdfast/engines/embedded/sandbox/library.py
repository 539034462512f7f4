"""Python packages that every task finds without fetching them: read once, laid down where tasks can have them."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

DEBUG_TOOLS = "/pai_data/debug"  # where OpenPAI's debugging guide has them, besides


@dataclass(frozen=True)
class Library:
    """Files of some packages as they were when the server started: an upgrade does not change a task's own."""

    packages: tuple[str, ...] = ()  # their folders on this machine

    @cached_property
    def files(self) -> tuple[tuple[str, bytes], ...]:
        """Paths within the library, with what is in them."""
        return tuple(sorted(_sources(self.packages)))

    def files_at(self, folder: str) -> list[tuple[str, bytes, int]]:
        """As layers take them: path, content, mode."""
        return [(f"{folder}/{path}", content, 0o644) for path, content in self.files]


def _sources(packages: Iterable[str]) -> Iterator[tuple[str, bytes]]:
    for package in map(Path, packages):
        for folder, below, names in os.walk(package):
            below[:] = [name for name in below if name != "__pycache__"]
            for path in (Path(folder) / name for name in names if name.endswith(".py")):
                yield str(path.relative_to(package.parent)), path.read_bytes()
