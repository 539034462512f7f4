"""The HTTP server around the application."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import signal
import socket
from collections.abc import Callable, Iterator

import uvicorn
from starlette.types import ASGIApp

from .slow_clients import BoundedHttpProtocol
from .websocket_protocol import BoundedProtocol

MOST_MESSAGE = 64 * 1024  # bytes, of what a page sends through its socket
KEEP_ALIVE = 75  # seconds an idle connection stays open


async def run_http(
    app: ASGIApp, listener: socket.socket, *, on_ready: Callable[[], None] = lambda: None, last_requests: float = 3
) -> None:
    """Serve until SIGINT or SIGTERM; open requests then get `last_requests` seconds to end."""
    config = uvicorn.Config(
        app,
        loop="none",  # it runs in ours
        http=BoundedHttpProtocol,
        ws=BoundedProtocol,
        ws_max_size=MOST_MESSAGE,
        ws_per_message_deflate=False,
        lifespan="off",
        log_config=None,
        log_level="warning",
        access_log=False,
        server_header=False,
        proxy_headers=False,
        timeout_keep_alive=KEEP_ALIVE,
        timeout_graceful_shutdown=max(1, round(last_requests)),
    )
    logging.getLogger("uvicorn.error").addFilter(_is_news)
    await _Server(config, on_ready).serve(sockets=[listener])


# That an answer was cut short, which we do on purpose, is told before, and why. The other is a client's nonsense: its
# socket is closed, and whoever sends it again and again would fill the log.
_NO_NEWS = ("ASGI callable returned without completing response.", "Invalid UTF-8 sequence received from client.")


def _is_news(record: logging.LogRecord) -> bool:
    return record.msg not in _NO_NEWS


class _Server(uvicorn.Server):
    def __init__(self, config: uvicorn.Config, on_ready: Callable[[], None]) -> None:
        super().__init__(config)
        self._on_ready = on_ready

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets=sockets)
        if self.started:
            self._on_ready()

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """uvicorn would raise a signal once more after it has served; but then our own clean-up is still to come."""
        loop = asyncio.get_running_loop()
        taken = [number for number in (signal.SIGINT, signal.SIGTERM) if _handle(loop, number, self._stop)]
        try:
            yield
        finally:
            for number in taken:
                loop.remove_signal_handler(number)

    def _stop(self) -> None:
        """The first signal lets open requests end, the second does not."""
        self.force_exit = self.should_exit
        self.should_exit = True


def _handle(loop: asyncio.AbstractEventLoop, number: signal.Signals, handler: Callable[[], None]) -> bool:
    """False in a thread that is not the main one: signals go elsewhere then."""
    try:
        loop.add_signal_handler(number, handler)
    except (ValueError, RuntimeError, NotImplementedError):
        return False
    return True
