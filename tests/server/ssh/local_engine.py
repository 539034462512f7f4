"""An engine whose tasks are played, and can be entered: what runs inside runs as plain processes on this machine."""

from __future__ import annotations

import asyncio
import fcntl
import os
import pty
import signal
import struct
import subprocess
import termios
from collections.abc import Sequence
from pathlib import Path

from holdfast.engines.base import Command, Inside, Launch, NoEntry, ProcessInfo, Session
from holdfast.engines.fake import FakeEngine

SFTP_SERVERS = ("/usr/lib/openssh/sftp-server", "/usr/libexec/openssh/sftp-server", "/usr/lib/ssh/sftp-server")
CHUNK = 64 * 1024


class LocalEngine(FakeEngine):
    def __init__(self) -> None:
        super().__init__()
        self.entered: list[tuple[str, Command]] = []
        self.open_sessions: set[Session] = set()

    async def enter(self, attempt_id: str, command: Command) -> Session:
        if attempt_id not in self.machine.tasks:
            raise NoEntry("it is not there")
        self.entered.append((attempt_id, command))
        session: Session = _Terminal(command) if command.terminal else _Pipes(command)
        return session

    async def connect(self, attempt_id: str, port: int) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        try:
            return await asyncio.open_connection("127.0.0.1", port)
        except OSError:
            raise NoEntry(f"nothing listens on port {port}") from None

    async def revive(self, launch: Launch) -> None: ...

    async def processes(self, attempt_id: str) -> Sequence[ProcessInfo]:
        return []


def _argv(command: Command) -> list[str]:
    if command.kind is Inside.SFTP:
        return [next(path for path in SFTP_SERVERS if Path(path).exists())]
    return ["/bin/bash", "-c", command.script] if command.script else ["/bin/bash", "--norc"]


class _Base:
    process: subprocess.Popen[bytes]

    async def wait(self) -> int:
        status = await asyncio.to_thread(self.process.wait)
        return status if status >= 0 else 128 - status

    def signal(self, number: int) -> None:
        if self.process.poll() is None:
            os.killpg(self.process.pid, number)

    def _hang_up(self) -> None:
        if self.process.poll() is None:
            os.killpg(self.process.pid, signal.SIGHUP)

    def resize(self, columns: int, rows: int) -> None: ...


class _Pipes(_Base):
    def __init__(self, command: Command) -> None:
        pipe = subprocess.PIPE
        self.process = subprocess.Popen(
            _argv(command),
            stdin=pipe,
            stdout=pipe,
            stderr=pipe,
            start_new_session=True,
            bufsize=0,
            env={**os.environ, **command.env},
        )

    async def read(self) -> bytes:
        assert self.process.stdout is not None
        return await asyncio.to_thread(os.read, self.process.stdout.fileno(), CHUNK)

    async def read_errors(self) -> bytes:
        assert self.process.stderr is not None
        return await asyncio.to_thread(os.read, self.process.stderr.fileno(), CHUNK)

    async def write(self, data: bytes) -> None:
        assert self.process.stdin is not None
        await asyncio.to_thread(self._write_all, self.process.stdin.fileno(), data)

    @staticmethod
    def _write_all(fd: int, data: bytes) -> None:
        while data:
            try:
                data = data[os.write(fd, data) :]
            except BrokenPipeError:
                return

    def end_input(self) -> None:
        assert self.process.stdin is not None
        self.process.stdin.close()

    def close(self) -> None:
        self._hang_up()


class _Terminal(_Base):
    def __init__(self, command: Command) -> None:
        assert command.terminal is not None
        self.master, inner = pty.openpty()
        self.resize(command.terminal.columns, command.terminal.rows)
        self.process = subprocess.Popen(
            _argv(command),
            stdin=inner,
            stdout=inner,
            stderr=inner,
            start_new_session=True,
            env={**os.environ, **command.env, "TERM": command.terminal.term},
            preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0),
        )
        os.close(inner)

    async def read(self) -> bytes:
        try:
            return await asyncio.to_thread(os.read, self.master, CHUNK)
        except OSError:
            return b""

    async def read_errors(self) -> bytes:
        return b""

    async def write(self, data: bytes) -> None:
        await asyncio.to_thread(os.write, self.master, data)

    def end_input(self) -> None: ...

    def resize(self, columns: int, rows: int) -> None:
        fcntl.ioctl(self.master, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))

    def close(self) -> None:
        self._hang_up()
