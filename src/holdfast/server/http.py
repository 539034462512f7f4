"""Running the app on a socket that is already bound."""

from __future__ import annotations

import socket
from collections.abc import Callable

import uvicorn
from starlette.types import ASGIApp


async def run_http(app: ASGIApp, listener: socket.socket, *, on_ready: Callable[[], None], last_requests: int) -> None:
    """Until SIGINT or SIGTERM; open requests get `last_requests` seconds to end."""
    config = uvicorn.Config(
        app,
        loop="none",
        http="httptools",
        lifespan="off",
        access_log=False,
        log_config=None,
        server_header=False,
        timeout_graceful_shutdown=last_requests,
    )
    await _Server(config, on_ready).serve(sockets=[listener])


class _Server(uvicorn.Server):
    def __init__(self, config: uvicorn.Config, on_ready: Callable[[], None]) -> None:
        super().__init__(config)
        self.on_ready = on_ready

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets=sockets)
        if self.started:
            self.on_ready()
