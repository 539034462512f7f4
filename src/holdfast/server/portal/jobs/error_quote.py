"""The most relevant line of a failed task's log: its first error; for a Python traceback, the exception."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

from holdfast.services.logs.first_error import ERROR_LITERALS, FIRST_ERROR_PATTERN

from .log_text import render_log_text

MAX_QUOTE_LENGTH = 300  # characters that are quoted
_MAX_LINE_SIZE = 4096  # bytes read of a line
_MAX_TRACEBACK_LENGTH = 500  # lines
_MAX_TRACEBACKS = 10  # limit for unfinished tracebacks, which could be written on purpose
_ERROR_SIGN_PATTERN = re.compile(b"|".join(map(re.escape, ERROR_LITERALS)))
_ERROR_PATTERN = re.compile(FIRST_ERROR_PATTERN)
_TRACEBACK_PREFIX = "Traceback (most recent"


@dataclass(frozen=True, slots=True, kw_only=True)
class ErrorQuote:
    text: str  # escaped and shortened
    start: int  # byte offset in the log; of a traceback, its beginning


class _LogLine(NamedTuple):
    start: int
    data: bytes

    @property
    def text(self) -> str:
        """The text that a terminal shows, without text overwritten by a progress bar."""
        return render_log_text(self.data.rstrip(b"\r").rpartition(b"\r")[2][:_MAX_LINE_SIZE])

    @property
    def may_be_error(self) -> bool:
        return _ERROR_SIGN_PATTERN.search(self.data) is not None


def find_first_error(data: bytes, start: int) -> ErrorQuote | None:
    """Find the first error in the whole lines of `data`, which is at offset `start` of the log; or None."""
    lines = list(_iter_lines(data, start)) if _ERROR_SIGN_PATTERN.search(data) else []
    walked = 0
    for number, line in enumerate(lines):
        text = line.text if line.may_be_error else ""
        found = _ERROR_PATTERN.search(text)
        if found is None:
            continue
        if found[0] == _TRACEBACK_PREFIX:
            text = _find_exception_line(lines[number + 1 : number + 1 + _MAX_TRACEBACK_LENGTH], text[: found.start()])
            walked += 1
        if text or walked == _MAX_TRACEBACKS:
            return ErrorQuote(text=_shorten_quote(text.strip()), start=line.start) if text else None
    return None


def _iter_lines(data: bytes, start: int) -> Iterator[_LogLine]:
    for line in data.split(b"\n"):
        yield _LogLine(start, line)
        start += len(line) + 1


def _find_exception_line(lines: list[_LogLine], prefix: str) -> str:
    """Return the first line after the indented traceback lines. `prefix`: added to each line by a launcher."""
    for line in lines:
        text = line.text.removeprefix(prefix)
        if text.strip() and not text[0].isspace():
            return text
    return ""


def _shorten_quote(text: str) -> str:
    return text if len(text) <= MAX_QUOTE_LENGTH else f"{text[: MAX_QUOTE_LENGTH - 1]}…"
