"""Port forwarding: to ports of a task (`ssh -L`, `ssh -D`), and from the task to the client's machine (`ssh -R`)."""

from __future__ import annotations

import asyncio
import ipaddress
import logging
from collections.abc import Callable
from contextlib import suppress
from typing import Protocol

import asyncssh

from .flow_control import BufferedSession, PortChannel, WriteGate

log = logging.getLogger(__name__)

CHUNK_SIZE = 64 * 1024  # bytes
MIN_PORT = 1024  # lowest port to listen on for a client
LISTEN_ADDRESSES = {"localhost": "127.0.0.1", "127.0.0.1": "127.0.0.1", "::1": "::1"}


def is_loopback(host: str) -> bool:
    if host.lower() in ("localhost", "ip6-localhost"):
        return True
    try:
        return ipaddress.ip_address(normalize_peer_address(host)).is_loopback
    except ValueError:
        return False


def normalize_peer_address(address: str) -> str:
    """Return an IPv4-mapped IPv6 address as IPv4."""
    head, _, rest = address.lower().rpartition(":")
    return rest if head == "::ffff" and "." in rest else address


def get_peer_network(address: str) -> str:
    """Return the network that counts as one client: the loopback, an IPv6 network, or an IPv4 address."""
    address = normalize_peer_address(address)
    if is_loopback(address):
        return "loopback"
    try:
        found = ipaddress.ip_address(address.partition("%")[0])
    except ValueError:
        return address
    return str(ipaddress.ip_network((found, 64), strict=False)) if found.version == 6 else address


class TcpConnection(Protocol):
    """Reader and writer of one TCP connection."""

    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter

    def close(self) -> None: ...


class PortRelay(BufferedSession, asyncssh.SSHTCPSession[bytes]):
    """Relays data between a channel and a port."""

    _channel: asyncssh.SSHTCPChannel[bytes]

    def __init__(self, ends: TcpConnection, clear: WriteGate, ended: Callable[[], None]) -> None:
        super().__init__(clear, ended)
        self._tcp_connection = ends

    def connection_lost(self, exc: Exception | None) -> None:
        self._tcp_connection.close()
        super().connection_lost(exc)

    async def _run(self) -> None:
        """Relay each direction until it ends; an error ends both."""
        directions = [asyncio.create_task(self._relay_input()), asyncio.create_task(self._relay_output_until_eof())]
        try:
            await asyncio.wait(directions, return_when=asyncio.FIRST_EXCEPTION)
        finally:
            for direction in directions:
                direction.cancel()
            await asyncio.gather(*directions, return_exceptions=True)
            self._channel.close()

    async def _relay_input(self) -> None:
        writer = self._tcp_connection.writer
        while data := await self._inbox.read_data():
            writer.write(data)
            await writer.drain()
        if writer.can_write_eof():
            writer.write_eof()

    async def _relay_output_until_eof(self) -> None:
        await self._relay_output(lambda: self._tcp_connection.reader.read(CHUNK_SIZE), self._channel.write)
        self._channel.write_eof()


class _AcceptedConnection:
    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer

    def close(self) -> None:
        self.writer.close()


class PortListener(asyncssh.SSHListener):
    """Listens on this machine for a client; each connection is forwarded to the client's machine. `ended` is called
    when it is closed. Closing is idempotent."""

    def __init__(
        self,
        connection: asyncssh.SSHServerConnection,
        host: str,
        clear: WriteGate,
        take: Callable[[], Callable[[], None] | None],
        ended: Callable[[], None],
    ) -> None:
        """`take`: reserves a channel and returns its release function; None when there is none left."""
        super().__init__()
        self._connection = connection
        self._host = host  # as the client sent it
        self._write_gate = clear
        self._reserve_channel = take
        self._on_closed = ended
        self._server: asyncio.Server | None = None
        self._port = 0

    async def start_listening(self, port: int) -> None:
        """Start listening, or raise OSError. Call `close` in either case."""
        host = LISTEN_ADDRESSES[self._host]
        self._server = await asyncio.start_server(
            self._accept_connection, host, port, limit=CHUNK_SIZE, start_serving=False
        )
        self._port = self._server.sockets[0].getsockname()[1]
        await self._server.start_serving()

    async def _accept_connection(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        release = self._reserve_channel()
        if release is None:
            writer.close()
            return
        host, port = writer.get_extra_info("peername")[:2]
        try:
            channel = PortChannel(self._connection)
            relay = PortRelay(_AcceptedConnection(reader, writer), self._write_gate, release)
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
        self._on_closed()

    async def wait_closed(self) -> None:
        with suppress(OSError):
            await asyncio.sleep(0)
