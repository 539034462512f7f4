"""Finding the lines that match a user's regular expression, by RE2: its time grows linearly with the text.

A whole piece of a log is searched at once, outside the interpreter's lock: `(?m)` makes `^` and `$` match at line
ends, and with `never_nl` no match spans lines.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from holdfast.core.errors import UserError
from holdfast.core.messages import msg

from .matching import Hit, make_hit

MAX_MEMORY = 128 * 1024  # bytes of a compiled pattern: about 7000 instructions
MAX_STEPS = 128 * 1024 * 1024  # for a piece: instructions times bytes; at worst each takes some 10 ns

_PREFIX = b"(?m)"
_ESCAPES = r"(?<!\\)(?:\\\\)*"  # so that a backslash or parenthesis after it is not escaped itself
_WHOLE_TEXT = re.compile(rf"{_ESCAPES}(\\[AzC]|\(\?[a-zA-Z]*-[a-zA-Z]*m)")  # would see the borders of pieces
_UNSUPPORTED = (b"invalid perl operator: ", b"invalid escape sequence: ")  # as RE2 reports them
_TOO_LARGE = b"pattern too large"
_UNDECODABLE = re.compile("[\udc80-\udcff]")
_SUBSTITUTE = "\x1a"  # one byte, as what it stands for
_RETURNS = re.compile(rb"(?<!\r)\r+(?=\n|\Z)")


class LogPattern:
    def __init__(self, query: str, *, ignore_case: bool) -> None:
        """UserError when the pattern is invalid, too large, or uses what RE2 does not support."""
        found = _WHOLE_TEXT.search(query)
        if found:
            raise _unsupported(found[1])
        self._regexp = _compile(query, ignore_case)

    @property
    def max_piece_size(self) -> int:
        """Bytes that may be searched in one call, which cannot be ended before it is done."""
        return MAX_STEPS // int(self._regexp.programsize)

    def find_hits(self, piece: bytes, offset: int) -> Iterator[Hit]:
        """One hit for each line of `piece` that matches. `offset`: where the piece begins in the log."""
        text = _clean(piece)
        end = 0
        while end < len(piece) and (found := self._regexp.search(text, end)):
            at = found.start()
            begin = piece.rfind(b"\n", 0, at) + 1
            if begin == len(piece):  # behind the last line
                return
            end = piece.find(b"\n", at) + 1 or len(piece)
            line = piece[begin:end].rstrip(b"\r\n")
            if at <= begin + len(line):  # else it is among the carriage returns
                yield make_hit(line, at - begin, begin=offset + begin, end=offset + end)


def _compile(query: str, ignore_case: bool) -> Any:
    try:
        import re2  # here, so that a server without searches does not load it
    except ImportError:
        raise _not_installed() from None
    options = re2.Options()
    options.max_mem = MAX_MEMORY
    options.case_sensitive = not ignore_case
    options.never_nl = options.never_capture = True
    options.log_errors = False
    try:
        return re2.compile(_PREFIX + query.encode("utf-8", "surrogatepass"), options)
    except re2.error as error:
        raise _explain(error.args[0]) from None
    finally:
        re2.purge()  # it would keep the last 128 patterns


def _clean(piece: bytes) -> bytes:
    """The same number of bytes as valid UTF-8, with line feeds for the carriage returns at line ends."""
    if not piece.isascii():
        text = piece.decode("utf-8", "surrogateescape")
        piece = _UNDECODABLE.sub(_SUBSTITUTE, text).encode()
    if b"\r" in piece:
        piece = _RETURNS.sub(lambda found: b"\n" * len(found[0]), piece)
    return piece


def _explain(said: bytes) -> UserError:
    if said.startswith(_TOO_LARGE):
        return UserError(
            msg("This pattern needs too much memory"), field="q", hint=msg("Write it with smaller repeats.")
        )
    for prefix in _UNSUPPORTED:
        if said.startswith(prefix):
            return _unsupported(said.removeprefix(prefix).decode("utf-8", "replace"))
    error = said.replace(_PREFIX, b"", 1).decode("utf-8", "replace")
    return UserError(msg("This is not a pattern: {error}", error=error), field="q")


def _unsupported(syntax: str) -> UserError:
    return UserError(
        msg("Patterns do not support {syntax}", syntax=syntax),
        field="q",
        hint=msg(
            "Patterns use RE2 syntax: no look-around such as (?=x), no back-references such as \\1; ^ "
            "and $ are the ends of a line."
        ),
    )


def _not_installed() -> UserError:
    return UserError(
        msg("Patterns are not supported on this server"),
        field="q",
        hint=msg("Search for plain text. An admin can add patterns by installing the Python package google-re2."),
    )
