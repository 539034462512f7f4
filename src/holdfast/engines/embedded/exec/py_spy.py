"""py-spy, which reads the Python stacks of a process from outside. Blocking.

It trusts the paths that the process reports, and follows their links. So it runs inside the task, where they lead only
to the task's own files; from a copy in memory, since the image need not contain it.
"""

from __future__ import annotations

import shutil
import sys
import threading
from pathlib import Path

from holdfast.core.messages import msg
from holdfast.engines.base import ExecRefused

from ..sandbox.sealed_copy import SealedCopy


class PySpy:
    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._copy: SealedCopy | None = None

    def open(self) -> int:
        """Return a descriptor of the program, for the caller to close."""
        with self._lock:
            if self._copy is None:
                self._copy = SealedCopy(find_program())
            return self._copy.open_descriptor()

    def close(self) -> None:
        with self._lock:
            if self._copy is not None:
                self._copy.close()


def build_argv(process: int) -> tuple[str, ...]:
    return ("py-spy", "dump", "--json", "--full-filenames", "--pid", str(process))


def find_program() -> str:
    """Return its path on the server. ExecRefused if it is not installed."""
    beside = Path(sys.executable).with_name("py-spy")
    found = str(beside) if beside.is_file() else shutil.which("py-spy")
    if found is None:
        raise ExecRefused(msg("py-spy is not installed on the server"))
    return found
