"""Flow control between a client and a task: bounded memory on every side."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable
from typing import Any, Protocol

import asyncssh

MAX_BUFFERED_SIZE = 256 * 1024  # unread bytes; then reading pauses
WINDOW_SIZE = 1024 * 1024  # bytes a client can send ahead on one channel
MAX_PACKET_SIZE = 32 * 1024  # bytes
MIN_PACKET_SIZE = 4096  # smallest packet we send, even if a client asks for less: single bytes cost too much CPU
MAX_ENV_VARIABLES = 32


class PausableSource(Protocol):
    def pause_reading(self) -> None: ...
    def resume_reading(self) -> None: ...


class ReceiveBuffer:
    """Buffer of received data of a channel."""

    def __init__(self) -> None:
        self._chunks: deque[bytes] = deque()
        self._size = 0
        self._ended = False
        self._changed = asyncio.Event()
        self._paused_source: PausableSource | None = None

    def add_data(self, data: bytes, source: PausableSource) -> None:
        self._chunks.append(data)
        self._size += len(data)
        self._changed.set()
        if self._size > MAX_BUFFERED_SIZE and self._paused_source is None:
            self._paused_source = source
            source.pause_reading()

    def mark_end(self) -> None:
        self._ended = True
        self._changed.set()

    async def read_data(self) -> bytes:
        """Return all buffered data, waiting for some; empty at the end."""
        while not self._chunks and not self._ended:
            self._changed.clear()
            await self._changed.wait()
        taken = b"".join(self._chunks)
        self._chunks.clear()
        self._size = 0
        if self._paused_source is not None:
            source, self._paused_source = self._paused_source, None
            source.resume_reading()
        return taken


class WriteGate:
    """Open while written data is being read."""

    def __init__(self) -> None:
        self._open = asyncio.Event()
        self._open.set()

    def close_gate(self) -> None:
        self._open.clear()

    def open_gate(self) -> None:
        self._open.set()

    async def wait_until_open(self) -> None:
        await self._open.wait()


def install_write_gate(connection: asyncssh.SSHServerConnection) -> WriteGate:
    """Return a gate that is closed while the client does not read. A client can offer a window of 4 GiB and read
    nothing; the library would buffer all of it in memory."""
    gate = WriteGate()
    setattr(connection, "pause_writing", gate.close_gate)  # noqa: B010 - called by the event loop, no-op otherwise
    setattr(connection, "resume_writing", gate.open_gate)  # noqa: B010
    return gate


class _BoundedChannel:
    """A channel with limits on what a client can cost."""

    def process_open(self, send_chan: int, send_window: int, send_pktsize: int, session: Any) -> None:
        super().process_open(send_chan, send_window, max(send_pktsize, MIN_PACKET_SIZE), session)  # type: ignore[misc]

    def process_open_confirmation(self, send_chan: int, send_window: int, send_pktsize: int, packet: Any) -> None:
        size = max(send_pktsize, MIN_PACKET_SIZE)
        super().process_open_confirmation(send_chan, send_window, size, packet)  # type: ignore[misc]


class SessionChannel(_BoundedChannel, asyncssh.SSHServerChannel[bytes]):
    """A channel of a shell, a command or a file transfer."""

    def __init__(self, connection: asyncssh.SSHServerConnection) -> None:
        loop = asyncio.get_running_loop()
        super().__init__(connection, loop, True, False, False, 0, 1024, None, "strict", WINDOW_SIZE, MAX_PACKET_SIZE)

    def _process_env_request(self, packet: Any) -> bool:
        if len(self._env) >= MAX_ENV_VARIABLES:
            return False
        return super()._process_env_request(packet)


class PortChannel(_BoundedChannel, asyncssh.SSHTCPChannel[bytes]):
    """A channel of a port forwarding, in either direction."""

    def __init__(self, connection: asyncssh.SSHServerConnection) -> None:
        super().__init__(connection, asyncio.get_running_loop(), None, "strict", WINDOW_SIZE, MAX_PACKET_SIZE)


class BufferedSession:
    """Callbacks of a session that buffers what the client sends, and pauses while the client does not read."""

    def __init__(self, clear: WriteGate, ended: Callable[[], None]) -> None:
        """`clear` is open while the client reads; `ended` is called when the channel is closed."""
        self._connection_gate = clear
        self._on_close = ended
        self._channel_gate = WriteGate()
        self._inbox = ReceiveBuffer()
        self._channel: Any
        self._relay_task: asyncio.Task[None] | None = None

    def connection_made(self, chan: Any) -> None:
        self._channel = chan

    def session_started(self) -> None:
        self._relay_task = asyncio.create_task(self._run())

    async def _run(self) -> None:
        raise NotImplementedError

    def data_received(self, data: bytes, datatype: int | None) -> None:
        self._inbox.add_data(data, self._channel)

    def eof_received(self) -> bool:
        self._inbox.mark_end()
        return True  # output of the task is still sent

    def pause_writing(self) -> None:
        self._channel_gate.close_gate()

    def resume_writing(self) -> None:
        self._channel_gate.open_gate()

    def connection_lost(self, exc: Exception | None) -> None:
        self._inbox.mark_end()
        if self._relay_task is not None:
            self._relay_task.cancel()
        self._on_close()

    async def _relay_output(self, read: Callable[[], Awaitable[bytes]], write: Callable[[bytes], None]) -> None:
        while data := await read():
            write(data)
            await self._channel_gate.wait_until_open()
            await self._connection_gate.wait_until_open()
