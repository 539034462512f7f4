"""Removing whole folders of ours, whatever jobs or repositories have put into them: links, depths, closed folders."""

from __future__ import annotations

import os
import threading
from contextlib import suppress
from pathlib import Path

from .tree import empty
from .walk import OPEN_FOLDER, closing_fd


def remove_folder(path: Path, stop: threading.Event) -> None:
    """All of it, following no link; what cannot be removed is left to the next time."""
    with suppress(FileNotFoundError, NotADirectoryError), closing_fd(os.open(path, OPEN_FOLDER)) as folder:
        empty(folder, stop)
    with suppress(OSError):
        path.rmdir()
