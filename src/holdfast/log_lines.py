"""The server's own log: one line per record, constant text first, then its fields.

2030-01-01 12:00:00 WARNING could not save; trying again  event=save error="The disk is full"
"""

from __future__ import annotations

import json
import logging
import time

_STANDARD_ATTRIBUTES = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "color_message"}
_QUIET_LOGGERS = ("alembic", "httpx", "uvicorn.error", "asyncio")  # whose info records are not useful to operators


class LineFormatter(logging.Formatter):
    def __init__(self) -> None:
        super().__init__("%(asctime)s %(levelname)s %(message)s", "%Y-%m-%d %H:%M:%S")
        self.converter = time.gmtime

    def formatMessage(self, record: logging.LogRecord) -> str:
        fields = [
            f"{key}={_format_value(value)}" for key, value in vars(record).items() if key not in _STANDARD_ATTRIBUTES
        ]
        line = super().formatMessage(record)
        return f"{line}  {' '.join(fields)}" if fields else line


def configure_logging() -> None:
    handler = logging.StreamHandler()
    handler.setFormatter(LineFormatter())
    logging.basicConfig(level=logging.INFO, handlers=[handler], force=True)
    for name in _QUIET_LOGGERS:
        logging.getLogger(name).setLevel(logging.WARNING)


def _format_value(value: object) -> str:
    """Return plain words as they are; quote anything else, so that no value can start a new line."""
    text = str(value)
    return text if text and text.isprintable() and " " not in text and '"' not in text else json.dumps(text)
