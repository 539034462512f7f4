"""File descriptors: closed when a block ends, and opened without following links."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager


@contextmanager
def closing_fd(fd: int) -> Iterator[int]:
    try:
        yield fd
    finally:
        os.close(fd)


def open_below(folder: int, parts: Iterable[str] | Iterable[bytes], flags: int) -> int:
    """Open a path below an open folder part by part, so that none of them is followed if it is a link and `flags` has
    O_NOFOLLOW. Closes `folder`."""
    fd = folder
    for part in parts:
        with closing_fd(fd):
            below = os.open(part, flags, dir_fd=fd)
        fd = below
    return fd
