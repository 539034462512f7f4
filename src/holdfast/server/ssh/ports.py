"""Ports: of a task, reached from where the client is (`ssh -L`, `ssh -D`); and of the client's machine, reached from
the task (`ssh -R`)."""

from __future__ import annotations

import asyncio
import ipaddress
import logging
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Protocol

import asyncssh

from .flow import Gate, Inbox, PortChannel

log = logging.getLogger(__name__)

CHUNK = 64 * 1024
MIN_PORT = 1024  # that may be listened on here for a client
LISTENED_ON = {"localhost": "127.0.0.1", "127.0.0.1": "127.0.0.1", "::1": "::1"}


def is_loopback(host: str) -> bool:
    if host.lower() in ("localhost", "ip6-localhost"):
        return True
    try:
        return ipaddress.ip_address(plain_address(host)).is_loopback
    except ValueError:
        return False


def plain_address(address: str) -> str:
    """Of version 4 where it only wears version 6's clothes."""
    head, _, rest = address.lower().rpartition(":")
    return rest if head == "::ffff" and "." in rest else address


def neighbourhood(address: str) -> str:
    """What one neighbour has for itself, and counts as one: the loopback, a network of version 6, an address of 4."""
    address = plain_address(address)
    if is_loopback(address):
        return "loopback"
    try:
        found = ipaddress.ip_address(address.partition("%")[0])
    except ValueError:
        return address
    return str(ipaddress.ip_network((found, 64), strict=False)) if found.version == 6 else address


class Ends(Protocol):
    """Two ends of one connection, outside of SSH."""

    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter

    def close(self) -> None: ...


class Relay(asyncssh.SSHTCPSession[bytes]):
    """What comes on the channel goes to the port, and the other way round."""

    def __init__(self, ends: Ends, clear: Gate, ended: Callable[[], None]) -> None:
        self._ends = ends
        self._clear = clear
        self._ended = ended
        self._room = Gate()
        self._inbox = Inbox()
        self._channel: asyncssh.SSHTCPChannel[bytes]
        self._work: asyncio.Task[None] | None = None

    def connection_made(self, chan: Any) -> None:
        self._channel = chan

    def session_started(self) -> None:
        self._work = asyncio.create_task(self._run())

    def data_received(self, data: bytes, datatype: int | None) -> None:
        self._inbox.put(data, self._channel)

    def eof_received(self) -> bool:
        self._inbox.end()
        return True

    def pause_writing(self) -> None:
        self._room.shut()

    def resume_writing(self) -> None:
        self._room.open()

    def connection_lost(self, exc: Exception | None) -> None:
        self._inbox.end()
        if self._work is not None:
            self._work.cancel()
        self._ends.close()
        self._ended()

    async def _run(self) -> None:
        """Each way until it ends; when one breaks, both do."""
        ways = [asyncio.create_task(self._pass_in()), asyncio.create_task(self._pass_out())]
        try:
            await asyncio.wait(ways, return_when=asyncio.FIRST_EXCEPTION)
        finally:
            for way in ways:
                way.cancel()
            await asyncio.gather(*ways, return_exceptions=True)
            self._channel.close()

    async def _pass_in(self) -> None:
        writer = self._ends.writer
        while data := await self._inbox.take():
            writer.write(data)
            await writer.drain()
        if writer.can_write_eof():
            writer.write_eof()

    async def _pass_out(self) -> None:
        while data := await self._ends.reader.read(CHUNK):
            self._channel.write(data)
            await self._room.passed()
            await self._clear.passed()
        self._channel.write_eof()


class _Accepted:
    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer

    def close(self) -> None:
        self.writer.close()


class Listener(asyncssh.SSHListener):
    """Listens here for a client; each connection goes to the client's machine. `ended` is called when it is closed, and
    harmless twice."""

    def __init__(
        self,
        connection: asyncssh.SSHServerConnection,
        host: str,
        clear: Gate,
        take: Callable[[], Callable[[], None] | None],
        ended: Callable[[], None],
    ) -> None:
        """`take`: a place for one more channel, to be given back; None when there is none left."""
        super().__init__()
        self._connection = connection
        self._host = host  # as the client wrote it
        self._clear = clear
        self._take = take
        self._ended = ended
        self._server: asyncio.Server | None = None
        self._port = 0

    async def listen(self, port: int) -> None:
        """OSError when it cannot. Whatever comes of it, `close` ends it."""
        host = LISTENED_ON[self._host]
        self._server = await asyncio.start_server(self._accept, host, port, limit=CHUNK, start_serving=False)
        self._port = self._server.sockets[0].getsockname()[1]
        await self._server.start_serving()

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        release = self._take()
        if release is None:
            writer.close()
            return
        host, port = writer.get_extra_info("peername")[:2]
        try:
            channel = PortChannel(self._connection)
            relay = Relay(_Accepted(reader, writer), self._clear, release)
            await channel.accept(lambda: relay, self._host, self._port, host, port)
        except (asyncssh.Error, OSError):
            release()
            writer.close()

    def get_port(self) -> int:
        return self._port

    def close(self) -> None:
        if self._server is not None:
            self._server.close()
            self._server = None
        self._ended()

    async def wait_closed(self) -> None:
        with suppress(OSError):
            await asyncio.sleep(0)
