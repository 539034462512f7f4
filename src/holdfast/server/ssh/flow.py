"""How much may lie in memory between a client and a task: bounded on every side."""

from __future__ import annotations

import asyncio
from collections import deque
from typing import Any, Protocol

import asyncssh

MAX_WAITING = 256 * 1024  # bytes that came and were not taken; then no more is read
WINDOW = 1024 * 1024  # bytes a client may send ahead on one channel
PACKET = 32 * 1024
MIN_PACKET_SIZE = 4096  # sent, whatever a client says it takes: a byte at a time would keep us busy
MAX_VARIABLES = 32


class Source(Protocol):
    def pause_reading(self) -> None: ...
    def resume_reading(self) -> None: ...


class Inbox:
    """What came on a channel, until somebody takes it."""

    def __init__(self) -> None:
        self._waiting: deque[bytes] = deque()
        self._size = 0
        self._ended = False
        self._news = asyncio.Event()
        self._paused: Source | None = None

    def put(self, data: bytes, source: Source) -> None:
        self._waiting.append(data)
        self._size += len(data)
        self._news.set()
        if self._size > MAX_WAITING and self._paused is None:
            self._paused = source
            source.pause_reading()

    def end(self) -> None:
        self._ended = True
        self._news.set()

    async def take(self) -> bytes:
        """All that is there, as soon as there is some; empty at the end."""
        while not self._waiting and not self._ended:
            self._news.clear()
            await self._news.wait()
        taken = b"".join(self._waiting)
        self._waiting.clear()
        self._size = 0
        if self._paused is not None:
            source, self._paused = self._paused, None
            source.resume_reading()
        return taken


class Gate:
    """Open while something takes what is written to it."""

    def __init__(self) -> None:
        self._open = asyncio.Event()
        self._open.set()

    def shut(self) -> None:
        self._open.clear()

    def open(self) -> None:
        self._open.set()

    async def passed(self) -> None:
        await self._open.wait()


def gate_of(connection: asyncssh.SSHServerConnection) -> Gate:
    """Shut while the client does not take what was sent to it. A client may offer to take 4 GiB and take nothing, and
    the library itself would keep all that in memory."""
    gate = Gate()
    setattr(connection, "pause_writing", gate.shut)  # noqa: B010 - called by the event loop, does nothing by itself
    setattr(connection, "resume_writing", gate.open)  # noqa: B010
    return gate


class _Bounded:
    """A channel that a client cannot make costly."""

    def process_open(self, send_chan: int, send_window: int, send_pktsize: int, session: Any) -> None:
        super().process_open(send_chan, send_window, max(send_pktsize, MIN_PACKET_SIZE), session)  # type: ignore[misc]

    def process_open_confirmation(self, send_chan: int, send_window: int, send_pktsize: int, packet: Any) -> None:
        size = max(send_pktsize, MIN_PACKET_SIZE)
        super().process_open_confirmation(send_chan, send_window, size, packet)  # type: ignore[misc]


class SessionChannel(_Bounded, asyncssh.SSHServerChannel[bytes]):
    """Of a shell, a command or a file transfer."""

    def __init__(self, connection: asyncssh.SSHServerConnection) -> None:
        loop = asyncio.get_running_loop()
        super().__init__(connection, loop, True, False, False, 0, 1024, None, "strict", WINDOW, PACKET)

    def _process_env_request(self, packet: Any) -> bool:
        if len(self._env) >= MAX_VARIABLES:
            return False
        return super()._process_env_request(packet)


class PortChannel(_Bounded, asyncssh.SSHTCPChannel[bytes]):
    """Of a connection to a port, there or here."""

    def __init__(self, connection: asyncssh.SSHServerConnection) -> None:
        super().__init__(connection, asyncio.get_running_loop(), None, "strict", WINDOW, PACKET)
