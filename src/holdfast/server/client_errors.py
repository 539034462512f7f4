"""Log lines that any client can cause by a malformed request: counted, and logged as one line per interval."""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager

log = logging.getLogger(__name__)

SUMMARY_INTERVAL = 60.0  # seconds
WATCHED_LOGGER = "uvicorn.error"

# What uvicorn writes -> the field of the summary that counts it.
_COUNTED = {
    "Invalid HTTP request received.": "malformed",
    "Unsupported upgrade request.": "unsupported_upgrades",
    "ASGI callable returned without completing handshake.": "refused_sockets",
    "Invalid UTF-8 sequence received from client.": "invalid_text",
}
# That an answer was cut short, which we do on purpose, is logged before, with the reason.
_DROPPED = {"ASGI callable returned without completing response."}


@contextmanager
def summarised_client_errors() -> Iterator[None]:
    """Within a running event loop."""
    errors = ClientErrors(asyncio.get_running_loop())
    logger = logging.getLogger(WATCHED_LOGGER)
    logger.addFilter(errors.keep)
    try:
        yield
    finally:
        logger.removeFilter(errors.keep)
        errors.close()


class ClientErrors:
    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._counts: Counter[str] = Counter()
        self._timer: asyncio.TimerHandle | None = None
        self.keep = self._keep  # one object, by which the filter is removed again

    def _keep(self, record: logging.LogRecord) -> bool:
        """Whether a record is logged as it is."""
        if record.msg in _DROPPED:
            return False
        kind = _COUNTED.get(str(record.msg))
        if kind is None:
            return True
        self._counts[kind] += 1
        if self._timer is None:
            self._timer = self._loop.call_later(SUMMARY_INTERVAL, self.summarise)
        return False

    def summarise(self) -> None:
        self._timer = None
        if self._counts:
            log.warning("refused requests of clients", extra={"event": "client-errors", **self._counts})
            self._counts.clear()

    def close(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self.summarise()
