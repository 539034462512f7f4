"""Finding the lines that match a user's regular expression, with RE2, which runs in linear time.

A whole piece of a log is searched at once, without the GIL: `(?m)` makes `^` and `$` match at line boundaries, and with
`never_nl` no match spans lines.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from holdfast.core.errors import UserError
from holdfast.core.messages import msg

from .matching import Hit, build_hit

MAX_PATTERN_MEMORY = 128 * 1024  # bytes of a compiled pattern: about 7000 instructions
MAX_STEPS = 128 * 1024 * 1024  # for a piece: instructions times bytes; each takes at most about 10 ns

_MULTILINE_PREFIX = b"(?m)"
_UNESCAPED_PREFIX = r"(?<!\\)(?:\\\\)*"  # so that a backslash or parenthesis after it is not escaped itself
_WHOLE_TEXT_PATTERN = re.compile(
    rf"{_UNESCAPED_PREFIX}(\\[AzC]|\(\?[a-zA-Z]*-[a-zA-Z]*m)"
)  # would match at piece boundaries
_UNSUPPORTED_ERROR_PREFIXES = (b"invalid perl operator: ", b"invalid escape sequence: ")  # as RE2 reports them
_TOO_LARGE_ERROR_PREFIX = b"pattern too large"
_UNDECODABLE_PATTERN = re.compile("[\udc80-\udcff]")
_SUBSTITUTE_CHARACTER = "\x1a"  # one byte, like the byte it replaces
_CARRIAGE_RETURN_PATTERN = re.compile(rb"(?<!\r)\r+(?=\n|\Z)")


class LogPattern:
    def __init__(self, query: str, *, ignore_case: bool) -> None:
        """Raise UserError if the pattern is not valid, too large, or not supported by RE2."""
        found = _WHOLE_TEXT_PATTERN.search(query)
        if found:
            raise _build_unsupported_error(found[1])
        self._regexp = _compile_pattern(query, ignore_case)

    @property
    def max_piece_size(self) -> int:
        """Maximum bytes to search in one call, which cannot be cancelled."""
        return MAX_STEPS // int(self._regexp.programsize)

    def iter_hits(self, piece: bytes, offset: int) -> Iterator[Hit]:
        """Yield one hit for each line of `piece` that matches. `offset`: start of the piece in the log."""
        text = _normalize_bytes(piece)
        end = 0
        while end < len(piece) and (found := self._regexp.search(text, end)):
            at = found.start()
            begin = piece.rfind(b"\n", 0, at) + 1
            if begin == len(piece):  # after the last line
                return
            end = piece.find(b"\n", at) + 1 or len(piece)
            line = piece[begin:end].rstrip(b"\r\n")
            if at <= begin + len(line):  # else it is among the carriage returns
                yield build_hit(line, at - begin, begin=offset + begin, end=offset + end)


def _compile_pattern(query: str, ignore_case: bool) -> Any:
    try:
        import re2  # imported on first use to save memory
    except ImportError:
        raise _build_not_installed_error() from None
    options = re2.Options()
    options.max_mem = MAX_PATTERN_MEMORY
    options.case_sensitive = not ignore_case
    options.never_nl = options.never_capture = True
    options.log_errors = False
    try:
        return re2.compile(_MULTILINE_PREFIX + query.encode("utf-8", "surrogatepass"), options)
    except re2.error as error:
        raise _build_pattern_error(error.args[0]) from None
    finally:
        re2.purge()  # its cache would keep the last 128 patterns


def _normalize_bytes(piece: bytes) -> bytes:
    """Return the same number of bytes as valid UTF-8, with line feeds for carriage returns at line ends."""
    if not piece.isascii():
        text = piece.decode("utf-8", "surrogateescape")
        piece = _UNDECODABLE_PATTERN.sub(_SUBSTITUTE_CHARACTER, text).encode()
    if b"\r" in piece:
        piece = _CARRIAGE_RETURN_PATTERN.sub(lambda found: b"\n" * len(found[0]), piece)
    return piece


def _build_pattern_error(output: bytes) -> UserError:
    if output.startswith(_TOO_LARGE_ERROR_PREFIX):
        return UserError(msg("This pattern needs too much memory"), field="q", hint=msg("Use smaller repeat counts."))
    for prefix in _UNSUPPORTED_ERROR_PREFIXES:
        if output.startswith(prefix):
            return _build_unsupported_error(output.removeprefix(prefix).decode("utf-8", "replace"))
    error = output.replace(_MULTILINE_PREFIX, b"", 1).decode("utf-8", "replace")
    return UserError(msg("This pattern is not valid: {error}", error=error), field="q")


def _build_unsupported_error(syntax: str) -> UserError:
    return UserError(
        msg("Patterns do not support {syntax}", syntax=syntax),
        field="q",
        hint=msg(
            "Use RE2 syntax, without look-around such as (?=x) and back-references such as \\1. ^ and $ match at "
            "line boundaries."
        ),
    )


def _build_not_installed_error() -> UserError:
    return UserError(
        msg("Patterns are not supported on this server"),
        field="q",
        hint=msg("Search for plain text, or ask an admin to install the Python package google-re2."),
    )
