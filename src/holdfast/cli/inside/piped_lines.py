"""Lines of a standard input that is no terminal, read ahead so that its end is known before they are asked for."""

from __future__ import annotations

import queue
import sys
import threading
from collections.abc import Callable
from contextlib import suppress

AHEAD = 1000  # lines


class PipedLines:
    def __init__(self, at_end: Callable[[], None]) -> None:
        """`at_end` is called by the thread that reads."""
        self._lines: queue.Queue[str | None] = queue.Queue(AHEAD)
        self._at_end = at_end
        self._ended = False
        threading.Thread(target=self._read, name="stdin", daemon=True).start()

    def take(self) -> str:
        """The next one, without its end. EOFError when there are no more."""
        line = self._lines.get()
        if line is None:
            raise EOFError
        return line

    @property
    def are_over(self) -> bool:
        """All were taken, and there will be no more."""
        return self._ended and self._lines.qsize() <= 1

    def _read(self) -> None:
        # Not through sys.stdin: a thread that waits there with its lock keeps Python from ending.
        with suppress(OSError), open(sys.stdin.fileno(), "rb", buffering=0, closefd=False) as source:
            while line := source.readline():
                self._lines.put(line.decode("utf-8", "replace").rstrip("\n"))
        self._lines.put(None)
        self._ended = True
        self._at_end()
