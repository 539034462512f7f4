"""A command at a terminal of its own, driven key by key."""

from __future__ import annotations

import fcntl
import os
import pty
import select
import struct
import termios
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from tests.preloaded import start_holdfast

from .cli_runner import STARTED, TIMEOUT


class AtTerminal:
    def __init__(self, *args: str, env: Mapping[str, str], columns: int = 100, rows: int = 30) -> None:
        self._ours, theirs = pty.openpty()
        self.resize(columns, rows)
        self.before = self.settings()
        self.process = start_holdfast(
            args,
            env={**env, "TERM": "xterm-256color", "NO_COLOR": "1"},
            at_terminal=True,
            stdin=theirs,
            stdout=theirs,
            stderr=theirs,
            start_new_session=True,
        )
        STARTED.append(self.process)
        self._theirs = theirs  # kept, so that what it left of the terminal's settings can be looked at
        self.seen = b""
        self._looked = 0

    def settings(self) -> list[Any]:
        return termios.tcgetattr(self._ours)

    def resize(self, columns: int, rows: int) -> None:
        """Tells the foreground, as a window that is dragged does."""
        fcntl.ioctl(self._ours, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))

    def type(self, keys: bytes) -> None:
        os.write(self._ours, keys)

    def until(self, text: bytes) -> bytes:
        """What is shown up to and with this text, from where the last look ended."""
        end = time.monotonic() + TIMEOUT
        while text not in self.seen[self._looked :]:
            assert time.monotonic() < end, f"{text!r} did not come: {self.seen[self._looked :]!r}"
            assert self._read() or self.process.poll() is None, f"it ended: {self.seen[self._looked :]!r}"
        at = self.seen.index(text, self._looked) + len(text)
        found, self._looked = self.seen[self._looked : at], at
        return found

    def _read(self) -> bool:
        ready, _, _ = select.select([self._ours], [], [], 0.1)
        if ready:
            self.seen += os.read(self._ours, 65536)
        return bool(ready)

    def wait(self) -> int:
        """Its exit code; shows all it wrote."""
        end = time.monotonic() + TIMEOUT
        while self.process.poll() is None:
            assert time.monotonic() < end, f"it does not end: {self.seen!r}"
            self._read()
        while self._read():
            pass
        return self.process.wait()

    def close(self) -> None:
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        os.close(self._ours)
        os.close(self._theirs)


@contextmanager
def at_terminal(*args: str, env: Mapping[str, str], columns: int = 100, rows: int = 30) -> Iterator[AtTerminal]:
    terminal = AtTerminal(*args, env=env, columns=columns, rows=rows)
    try:
        yield terminal
    finally:
        terminal.close()
