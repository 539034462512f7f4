"""The HTTP server around the application."""

from __future__ import annotations

import asyncio
import contextlib
import signal
import socket
from collections.abc import Callable, Iterator, Sequence

from starlette.types import ASGIApp
from uvicorn.config import Config
from uvicorn.server import Server

from .client_errors import summarize_client_errors
from .slow_clients import BoundedHttpProtocol, get_max_connections
from .websocket_protocol import BoundedWebSocketProtocol

MAX_MESSAGE_SIZE = 64 * 1024  # bytes, of one WebSocket message
MAX_BACKLOG = 2048  # connections waiting to be accepted
KEEP_ALIVE_TIMEOUT = 75  # seconds an idle connection stays open


async def run_http_server(
    app: ASGIApp,
    listeners: Sequence[socket.socket],
    *,
    on_ready: Callable[[], None] = lambda: None,
    on_stop: Callable[[], None] = lambda: None,
    last_requests: float = 3,
) -> None:
    """Serve until SIGINT or SIGTERM; open requests then get `last_requests` seconds to finish. `on_stop` is called when
    no more connections are accepted."""
    config = Config(
        app,
        loop="none",  # it runs in our event loop
        http=BoundedHttpProtocol,
        ws=BoundedWebSocketProtocol,
        ws_max_size=MAX_MESSAGE_SIZE,
        ws_per_message_deflate=False,
        backlog=min(MAX_BACKLOG, max(1, get_max_connections() // 2)),  # accepted at once, before any is closed
        lifespan="off",
        log_config=None,
        log_level="warning",
        access_log=False,
        server_header=False,
        proxy_headers=False,  # the application does that: see forwarded
        timeout_keep_alive=KEEP_ALIVE_TIMEOUT,
        timeout_graceful_shutdown=max(1, round(last_requests)),
    )
    with summarize_client_errors():
        await _HttpServer(config, on_ready, on_stop).serve(sockets=list(listeners))


class _HttpServer(Server):
    def __init__(self, config: Config, on_ready: Callable[[], None], on_stop: Callable[[], None]) -> None:
        super().__init__(config)
        self._on_ready = on_ready
        self._on_stop = on_stop

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets=sockets)
        if self.started:
            self._on_ready()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        self._on_stop()
        await super().shutdown(sockets=sockets)

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Keep uvicorn from raising the signal again after serving, because our own cleanup follows."""
        loop = asyncio.get_running_loop()
        taken = [
            number
            for number in (signal.SIGINT, signal.SIGTERM)
            if _add_signal_handler(loop, number, self._handle_stop_signal)
        ]
        try:
            yield
        finally:
            for number in taken:
                loop.remove_signal_handler(number)

    def _handle_stop_signal(self) -> None:
        """Stop; the first signal waits for open requests, the second does not."""
        self.force_exit = self.should_exit
        self.should_exit = True


def _add_signal_handler(loop: asyncio.AbstractEventLoop, number: signal.Signals, handler: Callable[[], None]) -> bool:
    """Return False in a thread that is not the main one, which receives no signals."""
    try:
        loop.add_signal_handler(number, handler)
    except (ValueError, RuntimeError, NotImplementedError):
        return False
    return True
