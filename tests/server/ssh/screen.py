"""A program at a terminal of ours: what somebody would see and type."""

from __future__ import annotations

import asyncio
import fcntl
import os
import pty
import signal
import struct
import subprocess
import termios
from types import TracebackType

from tests.services.house import TIMEOUT


class Screen:
    def __init__(self, words: list[str], *, columns: int = 80, rows: int = 24) -> None:
        self._words = words
        self._columns, self._rows = columns, rows
        self.seen = b""
        self._news = asyncio.Event()

    async def __aenter__(self) -> Screen:
        self._master, inner = pty.openpty()
        self.resize(self._columns, self._rows)
        os.set_blocking(self._master, False)
        self.process = subprocess.Popen(
            self._words,
            stdin=inner,
            stdout=inner,
            stderr=inner,
            start_new_session=True,
            env={**os.environ, "TERM": "xterm-256color"},
            preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0),
        )
        os.close(inner)
        asyncio.get_running_loop().add_reader(self._master, self._read)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, where: TracebackType | None
    ) -> None:
        asyncio.get_running_loop().remove_reader(self._master)
        if self.process.poll() is None:
            self.process.kill()
        await asyncio.to_thread(self.process.wait)
        os.close(self._master)

    def _read(self) -> None:
        try:
            self.seen += os.read(self._master, 65536)
        except OSError:
            asyncio.get_running_loop().remove_reader(self._master)
        self._news.set()

    def type(self, text: str) -> None:
        os.write(self._master, text.encode())

    def resize(self, columns: int, rows: int) -> None:
        fcntl.ioctl(self._master, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
        if hasattr(self, "process"):
            self.process.send_signal(signal.SIGWINCH)

    async def until(self, text: str) -> bytes:
        """All that was seen up to `text`, which is then taken away."""
        wanted = text.encode()
        try:
            async with asyncio.timeout(TIMEOUT):
                while wanted not in self.seen:
                    self._news.clear()
                    await self._news.wait()
        except TimeoutError:
            raise AssertionError(f"{text!r} does not come; there is {self.seen[-2000:]!r}") from None
        before, _, self.seen = self.seen.partition(wanted)
        return before

    async def end(self) -> int:
        return await asyncio.wait_for(asyncio.to_thread(self.process.wait), TIMEOUT)
