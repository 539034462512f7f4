"""Deleting folders with hostile contents: links, deep nesting, missing permissions."""

from __future__ import annotations

import os
import threading
from contextlib import suppress
from pathlib import Path

from .file_tree import delete_contents
from .folder_scan import OPEN_FOLDER_FLAGS, closing_fd


def remove_folder(path: Path, stop: threading.Event) -> None:
    """Delete a folder without following links. What cannot be deleted is left for the next run."""
    with suppress(FileNotFoundError, NotADirectoryError), closing_fd(os.open(path, OPEN_FOLDER_FLAGS)) as folder:
        delete_contents(folder, stop)
    with suppress(OSError):
        path.rmdir()
