"""Output of a task: printed line by line, with its beginning and end kept for the verdict. Secrets are masked."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from holdfast.diagnosis.case import LogExcerpt
from holdfast.jobspec import MASK

_HEAD_SIZE = 64 * 1024  # bytes kept
_TAIL_SIZE = 256 * 1024  # bytes
_MAX_LINE_LENGTH = 64 * 1024
_MIN_SECRET_LENGTH = 3  # characters; shorter ones would mask half of every line
_LINE_BREAK_PATTERN = re.compile(rb"[\r\n]")


class SecretMask:
    def __init__(self, secrets: Mapping[str, Any]) -> None:
        values = sorted(set(_iter_secret_values(secrets)), key=len, reverse=True)
        self._pattern = re.compile("|".join(map(re.escape, values))) if values else None

    def __call__(self, text: str) -> str:
        return self._pattern.sub(MASK, text) if self._pattern else text


def _iter_secret_values(value: Any) -> Iterator[str]:
    if isinstance(value, Mapping):
        for each in value.values():
            yield from _iter_secret_values(each)
    elif isinstance(value, list | tuple):
        for each in value:
            yield from _iter_secret_values(each)
    elif value is not None and not isinstance(value, bool):
        yield from (line for line in str(value).splitlines() if len(line) >= _MIN_SECRET_LENGTH)


class TaskOutput:
    def __init__(self, mask: SecretMask, say: Callable[[str], None]) -> None:
        self._mask = mask
        self._print_line = say
        self._size = 0
        self._beginning = bytearray()
        self._end = bytearray()
        self._partial_line = bytearray()

    def feed(self, data: bytes) -> None:
        self._buffer_output(data)
        self._partial_line += data
        *lines, rest = _LINE_BREAK_PATTERN.split(bytes(self._partial_line))
        self._partial_line = bytearray(rest)
        self._print_lines(lines)
        if len(self._partial_line) > _MAX_LINE_LENGTH:
            self.finish()

    def finish(self) -> None:
        rest, self._partial_line = bytes(self._partial_line), bytearray()
        self._print_lines([rest])

    def _print_lines(self, lines: Iterable[bytes]) -> None:
        for line in lines:
            if line:
                self._print_line(self._mask(line.decode("utf-8", "replace").expandtabs()))

    def _buffer_output(self, data: bytes) -> None:
        self._size += len(data)
        room = _HEAD_SIZE - len(self._beginning)
        self._beginning += data[: max(0, room)]
        self._end += data[max(0, room) :]
        del self._end[: max(0, len(self._end) - _TAIL_SIZE)]

    @property
    def log_excerpts(self) -> tuple[LogExcerpt, ...]:
        if not self._end:
            return (LogExcerpt(0, bytes(self._beginning)),)  # empty: it wrote no output
        gap = self._size - len(self._end) > len(self._beginning)
        if not gap:
            return (LogExcerpt(0, bytes(self._beginning + self._end)),)
        return LogExcerpt(0, bytes(self._beginning)), LogExcerpt(self._size - len(self._end), bytes(self._end))
