"""The port of the SSH gateway. The gateway is loaded at the first connection: many servers never get one, and it takes
memory and time."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING

from holdfast.listening.binding import BindError, BoundService, bind_service
from holdfast.services import Services

if TYPE_CHECKING:
    from .gateway import GatewayServer

log = logging.getLogger(__name__)


class LazySshGateway:
    def __init__(self, services: Services) -> None:
        self._services = services
        self._bound_service: BoundService | None = None
        self._serve_task: asyncio.Task[GatewayServer] | None = None

    def open_port(self, bound: BoundService | str | None = None) -> None:
        """Listen, and publish the address. `bound`: its sockets, or why there are none; None: bind them here. A port in
        use does not stop the server."""
        settings, gate = self._services.settings.ssh, self._services.ssh_gateway
        if settings.enabled:
            found = self._bind_sockets() if bound is None else bound
            if isinstance(found, str):
                gate.trouble = found
                log.warning("the ssh gateway is disabled", extra={"event": "ssh", "error": found})
            else:
                self._bound_service = found
                gate.port = found.port
                for each in found.listening_sockets:
                    asyncio.get_running_loop().add_reader(each, self.start_serving)
        gate.settled.set()

    def _bind_sockets(self) -> BoundService | str:
        settings = self._services.settings.ssh
        try:
            return bind_service("ssh", settings.host, settings.port)
        except BindError as error:
            return f"The SSH gateway cannot listen on {error.endpoint}: {error.reason}."

    def start_serving(self) -> asyncio.Task[GatewayServer]:
        """Accept clients from now on. Idempotent."""
        if self._serve_task is None:
            self._remove_readers()
            self._serve_task = asyncio.create_task(self._load_and_serve())
            self._serve_task.add_done_callback(self._report_failure)
        return self._serve_task

    def _remove_readers(self) -> None:
        assert self._bound_service is not None
        for each in self._bound_service.listening_sockets:
            asyncio.get_running_loop().remove_reader(each)

    async def _load_and_serve(self) -> GatewayServer:
        assert self._bound_service is not None
        gateway = await asyncio.to_thread(_load_gateway, self._services)
        await gateway.serve_listeners(self._bound_service.listening_sockets)
        return gateway

    def _report_failure(self, answering: asyncio.Task[GatewayServer]) -> None:
        if not answering.cancelled() and answering.exception() is not None:
            self._services.ssh_gateway.port = None
            self._services.ssh_gateway.trouble = "The SSH gateway failed to start. Check the server log."
            log.error("the ssh gateway failed to start", extra={"event": "ssh"}, exc_info=answering.exception())

    async def close(self) -> None:
        self._services.ssh_gateway.port = None
        if self._bound_service is None:
            return
        if self._serve_task is None:
            self._remove_readers()
        else:
            await asyncio.wait([self._serve_task])
            if self._serve_task.exception() is None:
                await self._serve_task.result().close()
        self._bound_service.close()


def _load_gateway(services: Services) -> GatewayServer:
    from .gateway import GatewayServer

    return GatewayServer(services)
