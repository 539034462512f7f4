"""Tasks whose nodes report a change: that it runs, or that it has ended. One listing for all tasks, however many wait.

A node creates an empty file in the folder `changes`, with the name of the task's folder. It is only a hint, so that a
change is seen soon: every task is looked at from time to time without it.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from holdfast.engines.embedded.task_folder import is_safe_id

CHANGES_FOLDER = "changes"
_MAX_AGE = 20  # calls for which a change of a task is kept that is not watched yet


class ChangedTasks:
    def __init__(self, home: Path) -> None:
        self._path = home / CHANGES_FOLDER
        self._collected: dict[str, int] = {}  # attempts with a change, and how many calls ago it was reported

    def create_folder(self) -> None:
        self._path.mkdir(mode=0o700, exist_ok=True)

    def collect(self) -> None:
        """Collect the changes since the last call. Blocking."""
        with suppress(OSError):
            for name in os.listdir(self._path):
                with suppress(OSError):
                    os.unlink(self._path / name)
                    self._collected[name] = 0

    def take_changed(self, is_watched: Callable[[str], bool]) -> set[str]:
        """Return the watched attempts with a change. Their files are read after this: a later change is reported again.
        A task may run before the server knows that it was submitted, so changes of others are kept for a while."""
        found = {name for name in self._collected if is_safe_id(name) and is_watched(name)}
        kept = {name: age + 1 for name, age in self._collected.items() if name not in found and age < _MAX_AGE}
        self._collected = kept
        return found
