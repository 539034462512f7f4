"""The port of the SSH gateway. What answers there is loaded when the first client comes: many servers are never asked,
and it takes memory and time."""

from __future__ import annotations

import asyncio
import logging
import socket
from typing import TYPE_CHECKING

from holdfast.services import Services

if TYPE_CHECKING:
    from .gateway import Gateway

log = logging.getLogger(__name__)

BACKLOG = 256  # clients that may wait for it to be loaded


class Door:
    def __init__(self, services: Services) -> None:
        self._services = services
        self._socket: socket.socket | None = None
        self._answering: asyncio.Task[Gateway] | None = None

    def open(self) -> None:
        """Listen, and say where. A port that is taken keeps nothing else from working."""
        settings, gate = self._services.settings.ssh, self._services.ssh_gate
        if settings.enabled:
            try:
                self._socket = _listen(settings.host, settings.port)
            except OSError as error:
                why = error.strerror or str(error)
                gate.trouble = f"The SSH gateway cannot listen on {settings.host}:{settings.port}: {why}."
                log.warning("the ssh gateway is off", extra={"event": "ssh", "error": gate.trouble})
            else:
                gate.port = self._socket.getsockname()[1]
                asyncio.get_running_loop().add_reader(self._socket, self.answer)
        gate.settled.set()

    def answer(self) -> asyncio.Task[Gateway]:
        """From now on clients are let in. Harmless twice."""
        if self._answering is None:
            assert self._socket is not None
            asyncio.get_running_loop().remove_reader(self._socket)
            self._answering = asyncio.create_task(self._answer())
            self._answering.add_done_callback(self._tell)
        return self._answering

    async def _answer(self) -> Gateway:
        assert self._socket is not None
        gateway = await asyncio.to_thread(_load, self._services)
        await gateway.serve(self._socket)
        return gateway

    def _tell(self, answering: asyncio.Task[Gateway]) -> None:
        if not answering.cancelled() and answering.exception() is not None:
            self._services.ssh_gate.port = None
            self._services.ssh_gate.trouble = "The SSH gateway does not start; the server's log tells why."
            log.error("the ssh gateway does not start", extra={"event": "ssh"}, exc_info=answering.exception())

    async def close(self) -> None:
        self._services.ssh_gate.port = None
        if self._socket is None:
            return
        if self._answering is None:
            asyncio.get_running_loop().remove_reader(self._socket)
        else:
            await asyncio.wait([self._answering])
            if self._answering.exception() is None:
                await self._answering.result().close()
        self._socket.close()


def _load(services: Services) -> Gateway:
    from .gateway import Gateway

    return Gateway(services)


def _listen(host: str, port: int) -> socket.socket:
    family = socket.getaddrinfo(host or None, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)[0][0]
    listener = socket.socket(family, socket.SOCK_STREAM)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((host, port))
        listener.listen(BACKLOG)
        listener.setblocking(False)
    except BaseException:
        listener.close()
        raise
    return listener
