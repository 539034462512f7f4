"""The Python that helpers run on when they go into tasks. Blocking.

A task can have such a helper run the very program it was started from once more (by a shell that names /proc/self/exe
as its interpreter), and reaches that file then. As the same user it could write to it, and with it to what the server
runs next. So it meets a sealed copy.
"""

from __future__ import annotations

import os
import sys

from ..sandbox_paths import PATH
from .bubblewrap import is_exposed
from .sealed import SealedCopy


class Interpreter:
    def __init__(self) -> None:
        self._real = os.path.realpath(sys.executable)
        self._copy = SealedCopy(self._real) if is_exposed(self._real) else None

    @property
    def env(self) -> dict[str, str]:
        """A copy would look for its libraries beside itself."""
        libraries = os.path.join(os.path.dirname(os.path.dirname(self._real)), "lib")
        return {"PATH": PATH, "LD_LIBRARY_PATH": libraries} if self._copy is not None else {"PATH": PATH}

    def open(self) -> int:
        """A descriptor of the program, for the caller to close."""
        return os.open(self._real, os.O_RDONLY | os.O_CLOEXEC) if self._copy is None else self._copy.open()

    def close(self) -> None:
        if self._copy is not None:
            self._copy.close()
