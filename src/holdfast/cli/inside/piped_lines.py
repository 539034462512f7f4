"""Lines of piped stdin, read ahead so that its end is known early."""

from __future__ import annotations

import queue
import sys
import threading
from collections.abc import Callable
from contextlib import suppress

MAX_READ_AHEAD = 1000  # lines


class PipedLineReader:
    def __init__(self, at_end: Callable[[], None]) -> None:
        """`at_end` is called by the reader thread."""
        self._lines: queue.Queue[str | None] = queue.Queue(MAX_READ_AHEAD)
        self._at_end = at_end
        self._ended = False
        threading.Thread(target=self._read_stdin, name="stdin", daemon=True).start()

    def read_line(self) -> str:
        """Return the next line without its newline; EOFError at the end."""
        line = self._lines.get()
        if line is None:
            raise EOFError
        return line

    @property
    def is_exhausted(self) -> bool:
        return self._ended and self._lines.qsize() <= 1

    def _read_stdin(self) -> None:
        # Not sys.stdin: a thread that blocks there holds its lock and keeps Python from exiting.
        with suppress(OSError), open(sys.stdin.fileno(), "rb", buffering=0, closefd=False) as source:
            while line := source.readline():
                self._lines.put(line.decode("utf-8", "replace").rstrip("\n"))
        self._lines.put(None)
        self._ended = True
        self._at_end()
