"""The port of the SSH gateway. What answers there is loaded when the first client comes: many servers are never asked,
and it takes memory and time."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING

from holdfast.listening.binding import BindError, BoundService, bind_service
from holdfast.services import Services

if TYPE_CHECKING:
    from .gateway import Gateway

log = logging.getLogger(__name__)


class Door:
    def __init__(self, services: Services) -> None:
        self._services = services
        self._bound: BoundService | None = None
        self._answering: asyncio.Task[Gateway] | None = None

    def open(self, bound: BoundService | str | None = None) -> None:
        """Listen, and say where. `bound`: its sockets, or why there are none; None: bind them here. A port that is
        taken keeps nothing else from working."""
        settings, gate = self._services.settings.ssh, self._services.ssh_gate
        if settings.enabled:
            found = self._bind() if bound is None else bound
            if isinstance(found, str):
                gate.trouble = found
                log.warning("the ssh gateway is off", extra={"event": "ssh", "error": found})
            else:
                self._bound = found
                gate.port = found.port
                for each in found.listening:
                    asyncio.get_running_loop().add_reader(each, self.answer)
        gate.settled.set()

    def _bind(self) -> BoundService | str:
        settings = self._services.settings.ssh
        try:
            return bind_service("ssh", settings.host, settings.port)
        except BindError as error:
            return f"The SSH gateway cannot listen on {error.endpoint}: {error.reason}."

    def answer(self) -> asyncio.Task[Gateway]:
        """From now on clients are let in. Harmless twice."""
        if self._answering is None:
            self._stop_waiting()
            self._answering = asyncio.create_task(self._answer())
            self._answering.add_done_callback(self._tell)
        return self._answering

    def _stop_waiting(self) -> None:
        assert self._bound is not None
        for each in self._bound.listening:
            asyncio.get_running_loop().remove_reader(each)

    async def _answer(self) -> Gateway:
        assert self._bound is not None
        gateway = await asyncio.to_thread(_load, self._services)
        await gateway.serve(self._bound.listening)
        return gateway

    def _tell(self, answering: asyncio.Task[Gateway]) -> None:
        if not answering.cancelled() and answering.exception() is not None:
            self._services.ssh_gate.port = None
            self._services.ssh_gate.trouble = "The SSH gateway does not start; the server's log tells why."
            log.error("the ssh gateway does not start", extra={"event": "ssh"}, exc_info=answering.exception())

    async def close(self) -> None:
        self._services.ssh_gate.port = None
        if self._bound is None:
            return
        if self._answering is None:
            self._stop_waiting()
        else:
            await asyncio.wait([self._answering])
            if self._answering.exception() is None:
                await self._answering.result().close()
        self._bound.close()


def _load(services: Services) -> Gateway:
    from .gateway import Gateway

    return Gateway(services)
