"""The line of a failed task's log that tells most: its first error, of a Python traceback the exception itself."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

from holdfast.services.logs.first_error import ERROR_SIGNS, FIRST_ERROR

from .log_text import readable

MAX_LENGTH = 300  # characters that are quoted
_LOOKED_AT = 4096  # bytes of a line
_MAX_TRACEBACK_LENGTH = 500  # lines
_MAX_WALKED = 10  # tracebacks without an end: somebody wrote them to keep us busy
_SIGN = re.compile(b"|".join(map(re.escape, ERROR_SIGNS)))
_ERROR = re.compile(FIRST_ERROR)
_TRACEBACK = "Traceback (most recent"


@dataclass(frozen=True, slots=True, kw_only=True)
class Quote:
    text: str  # harmless, and short
    start: int  # where in the log it stands, in bytes: of a traceback, its beginning


class _Line(NamedTuple):
    start: int
    data: bytes

    @property
    def text(self) -> str:
        """What a terminal shows of it: what a progress bar wrote over is gone."""
        return readable(self.data.rstrip(b"\r").rpartition(b"\r")[2][:_LOOKED_AT])

    @property
    def may_tell(self) -> bool:
        return _SIGN.search(self.data) is not None


def first_error(data: bytes, start: int) -> Quote | None:
    """In the whole lines of `data`, which stands at `start` of the log. None where nothing looks like an error."""
    lines = list(_lines(data, start)) if _SIGN.search(data) else []
    walked = 0
    for number, line in enumerate(lines):
        text = line.text if line.may_tell else ""
        found = _ERROR.search(text)
        if found is None:
            continue
        if found[0] == _TRACEBACK:
            text = _exception(lines[number + 1 : number + 1 + _MAX_TRACEBACK_LENGTH], text[: found.start()])
            walked += 1
        if text or walked == _MAX_WALKED:
            return Quote(text=_short(text.strip()), start=line.start) if text else None
    return None


def _lines(data: bytes, start: int) -> Iterator[_Line]:
    for line in data.split(b"\n"):
        yield _Line(start, line)
        start += len(line) + 1


def _exception(lines: list[_Line], prefix: str) -> str:
    """The first line after a traceback's own, which are indented. `prefix`: what a launcher puts before each line."""
    for line in lines:
        text = line.text.removeprefix(prefix)
        if text.strip() and not text[0].isspace():
            return text
    return ""


def _short(text: str) -> str:
    return text if len(text) <= MAX_LENGTH else f"{text[: MAX_LENGTH - 1]}…"
