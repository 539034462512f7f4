"""Log records that any client can cause by a malformed request: counted, and logged as one record per interval."""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager

log = logging.getLogger(__name__)

SUMMARY_INTERVAL = 60.0  # seconds
WATCHED_LOGGER = "uvicorn.error"

# uvicorn's message -> the field of the summary that counts it.
_COUNTED_MESSAGES = {
    "Invalid HTTP request received.": "malformed",
    "Unsupported upgrade request.": "unsupported_upgrades",
    "ASGI callable returned without completing handshake.": "refused_sockets",
    "Invalid UTF-8 sequence received from client.": "invalid_text",
}
# We cut responses short on purpose; the reason is logged before.
_DROPPED_MESSAGES = {"ASGI callable returned without completing response."}


@contextmanager
def summarize_client_errors() -> Iterator[None]:
    """Requires a running event loop."""
    errors = ClientErrorSummary(asyncio.get_running_loop())
    logger = logging.getLogger(WATCHED_LOGGER)
    logger.addFilter(errors.record_filter)
    try:
        yield
    finally:
        logger.removeFilter(errors.record_filter)
        errors.close()


class ClientErrorSummary:
    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._counts: Counter[str] = Counter()
        self._timer: asyncio.TimerHandle | None = None
        self.record_filter = self._filter_record  # one object, because the filter is removed by identity

    def _filter_record(self, record: logging.LogRecord) -> bool:
        """Return whether a record is logged unchanged."""
        if record.msg in _DROPPED_MESSAGES:
            return False
        kind = _COUNTED_MESSAGES.get(str(record.msg))
        if kind is None:
            return True
        self._counts[kind] += 1
        if self._timer is None:
            self._timer = self._loop.call_later(SUMMARY_INTERVAL, self.log_summary)
        return False

    def log_summary(self) -> None:
        self._timer = None
        if self._counts:
            log.warning("rejected malformed requests", extra={"event": "client-errors", **self._counts})
            self._counts.clear()

    def close(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self.log_summary()
