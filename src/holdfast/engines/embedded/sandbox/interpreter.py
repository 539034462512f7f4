"""The Python interpreter of exec helpers. Blocking.

A task can make such a helper execute its own program once more (by a script with /proc/self/exe as its interpreter),
and then reaches that file. As the same user it could write to it, and so change what the server runs next. So helpers
use a sealed copy.
"""

from __future__ import annotations

import os
import sys

from holdfast.engines.sandbox_paths import SEARCH_PATH

from .bubblewrap import is_exposed
from .sealed_copy import SealedCopy


class Interpreter:
    def __init__(self) -> None:
        self._real = os.path.realpath(sys.executable)
        self._copy = SealedCopy(self._real) if is_exposed(self._real) else None

    @property
    def env(self) -> dict[str, str]:
        """Library paths: a copy would search beside itself."""
        libraries = os.path.join(os.path.dirname(os.path.dirname(self._real)), "lib")
        return {"PATH": SEARCH_PATH, "LD_LIBRARY_PATH": libraries} if self._copy is not None else {"PATH": SEARCH_PATH}

    def open_executable(self) -> int:
        """Return a descriptor of the program, for the caller to close."""
        return os.open(self._real, os.O_RDONLY | os.O_CLOEXEC) if self._copy is None else self._copy.open_descriptor()

    def close(self) -> None:
        if self._copy is not None:
            self._copy.close()
