"""py-spy, which tells the Python stacks of a process from outside of it. Blocking.

It believes what the process says of its files, and follows their links. So it is run inside the task, where they lead
to nothing but the task's own files; from a copy in memory, for the image need not have it.
"""

from __future__ import annotations

import shutil
import sys
import threading
from pathlib import Path

from holdfast.core.messages import msg
from holdfast.engines.base import ExecRefused

from ..sandbox.sealed import SealedCopy


class Spy:
    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._copy: SealedCopy | None = None

    def open(self) -> int:
        """A descriptor of the program, for the caller to close."""
        with self._lock:
            if self._copy is None:
                self._copy = SealedCopy(_find())
            return self._copy.open()

    def close(self) -> None:
        with self._lock:
            if self._copy is not None:
                self._copy.close()


def argv(process: int) -> tuple[str, ...]:
    return ("py-spy", "dump", "--json", "--full-filenames", "--pid", str(process))


def _find() -> str:
    beside = Path(sys.executable).with_name("py-spy")
    found = str(beside) if beside.is_file() else shutil.which("py-spy")
    if found is None:
        raise ExecRefused(msg("The program py-spy is not installed where the server runs"))
    return found
