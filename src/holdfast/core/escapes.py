"""Decodes escapes in texts that programs write, and maps positions in the result back to the original.

Each decoding step is linear in the length of the text; the number of decodings is fixed.
"""

from __future__ import annotations

import html
import re
from bisect import bisect_right
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property, lru_cache

MAX_CACHED_ESCAPES = 4096

_HEX_DIGIT_PATTERN = rb"[0-9A-Fa-f]"
_UNICODE_ESCAPE_PATTERN = (
    rb"u[Dd][89ABab]" + _HEX_DIGIT_PATTERN + rb"{2}\\u[Dd][C-Fc-f]" + _HEX_DIGIT_PATTERN + rb"{2}"
    rb"|u" + _HEX_DIGIT_PATTERN + rb"{4}|u\{" + _HEX_DIGIT_PATTERN + rb"{1,6}\}|U" + _HEX_DIGIT_PATTERN
    + rb"{8}|x" + _HEX_DIGIT_PATTERN + rb"{2}"
)  # fmt: skip
_CONTROL_CODES_BY_ESCAPE = {
    b"\\" + letter.encode(): code for letter, code in zip("abefnrtv0", b"\a\b\x1b\f\n\r\t\v\0", strict=True)
}
_ANY_ESCAPE_PATTERN = (
    rb"(?![uUx]\{?" + _HEX_DIGIT_PATTERN + rb"{0,7}\Z|[0-3][0-7]?\Z)."
)  # unless a longer escape starts here
_MAX_CODE_POINT = 0x10FFFF

# An escape that is cut by the edge of a text.
_CUT_START_PATTERN = re.compile(rb"[uUx]?\{?" + _HEX_DIGIT_PATTERN + rb"{1,8}|[#0-9A-Za-z]{0,8};")
_CUT_UNICODE_PATTERN = (
    rb"(?:\\u[Dd][89ABab]" + _HEX_DIGIT_PATTERN + rb"{2})?\\(?:[uUx]\{?" + _HEX_DIGIT_PATTERN + rb"{0,7}|[0-3][0-7]?)?"
)
_CUT_END_PATTERN = re.compile(
    rb"(?:%" + _HEX_DIGIT_PATTERN + rb"?|" + _CUT_UNICODE_PATTERN + rb"|&[#0-9A-Za-z]{0,8})\Z"
)
_MAX_CUT_SIZE = 16  # bytes


@lru_cache(MAX_CACHED_ESCAPES)
def _decode_percent(escape: bytes) -> bytes:
    return b" " if escape == b"+" else bytes.fromhex(escape[1:].decode())


@lru_cache(MAX_CACHED_ESCAPES)
def _decode_character_escape(escape: bytes) -> bytes:
    """A backslash escape; \\xE9 is the character é."""
    if escape in _CONTROL_CODES_BY_ESCAPE:
        return bytes([_CONTROL_CODES_BY_ESCAPE[escape]])
    if len(escape) == 2:
        return escape[1:]
    if escape.count(b"\\") == 2:
        high, low = (int(part, 16) & 0x3FF for part in escape.split(b"\\u")[1:])
        return _encode_code_point(0x10000 + (high << 10) + low)
    code = int(escape[2:].strip(b"{}"), 16)
    return _encode_code_point(code) if code <= _MAX_CODE_POINT else escape


@lru_cache(MAX_CACHED_ESCAPES)
def _decode_octet_escape(escape: bytes) -> bytes:
    """A backslash escape; \\xE9 and \\351 are one byte."""
    if escape[1:2] == b"x" and len(escape) == 4:
        return bytes.fromhex(escape[2:].decode())
    if len(escape) == 4 and escape[1:].isdigit():
        return bytes([int(escape[1:], 8)])
    return _decode_character_escape(escape)


@lru_cache(MAX_CACHED_ESCAPES)
def _decode_html(escape: bytes) -> bytes:
    return html.unescape(escape.decode("ascii")).encode("utf-8", "surrogatepass")


def _encode_code_point(code: int) -> bytes:
    return chr(code).encode("utf-8", "surrogatepass")


@dataclass(frozen=True)
class _Decoder:
    pattern: re.Pattern[bytes]
    decode: Callable[[bytes], bytes]


_PERCENT_DECODER = _Decoder(re.compile(rb"%" + _HEX_DIGIT_PATTERN + rb"{2}"), _decode_percent)
_FORM_DECODER = _Decoder(re.compile(rb"\+|%" + _HEX_DIGIT_PATTERN + rb"{2}"), _decode_percent)
_CHARACTER_DECODER = _Decoder(
    re.compile(rb"\\(?:" + _UNICODE_ESCAPE_PATTERN + rb"|" + _ANY_ESCAPE_PATTERN + rb")", re.DOTALL),
    _decode_character_escape,
)
_OCTET_DECODER = _Decoder(
    re.compile(rb"\\(?:" + _UNICODE_ESCAPE_PATTERN + rb"|[0-3][0-7]{2}|" + _ANY_ESCAPE_PATTERN + rb")", re.DOTALL),
    _decode_octet_escape,
)
_HTML_DECODER = _Decoder(
    re.compile(rb"&(?:#[0-9]{1,7}|#[Xx]" + _HEX_DIGIT_PATTERN + rb"{1,6}|[A-Za-z][0-9A-Za-z]{1,31});"), _decode_html
)

# Each with the decoders for a second level of escapes.
_DECODERS: tuple[tuple[_Decoder, tuple[_Decoder, ...]], ...] = (
    (_PERCENT_DECODER, (_PERCENT_DECODER, _CHARACTER_DECODER)),
    (_FORM_DECODER, ()),
    (_CHARACTER_DECODER, (_CHARACTER_DECODER, _PERCENT_DECODER, _HTML_DECODER)),
    (_OCTET_DECODER, (_OCTET_DECODER,)),
    (_HTML_DECODER, (_CHARACTER_DECODER,)),
)


class DecodedText:
    """A text with its escapes decoded, or (without a decoder) as it is."""

    def __init__(self, data: bytes, parent: DecodedText | None = None, decoder: _Decoder | None = None) -> None:
        self.data = data
        self._parent = parent
        self._decoder = decoder

    def decode(self, decoder: _Decoder) -> DecodedText | None:
        """Return the decoded text; None when there is nothing to decode."""
        data = decoder.pattern.sub(lambda found: decoder.decode(found[0]), self.data)
        return None if data == self.data else DecodedText(data, self, decoder)

    def find_source_span(self, start: int, end: int) -> tuple[int, int]:
        """Return where the bytes from `start` to `end` are in the original text; no escape is cut."""
        if self._parent is None:
            return start, end
        return self._parent.find_source_span(self._map_to_parent_span(start)[0], self._map_to_parent_span(end - 1)[1])

    def _map_to_parent_span(self, position: int) -> tuple[int, int]:
        """Return the position in the parent of a byte, or of the escape that encodes it."""
        number = bisect_right(self._escape_spans[0], position) - 1
        if number < 0:
            return position, position + 1
        begin, (start, end, size) = self._escape_spans[0][number], self._escape_spans[1][number]
        if position < begin + size:
            return start, end
        source = end + position - begin - size
        return source, source + 1

    @cached_property
    def _escape_spans(self) -> tuple[list[int], list[tuple[int, int, int]]]:
        """Where each decoded escape starts, and (start, end, decoded size) in the parent."""
        assert self._parent is not None
        assert self._decoder is not None
        begins, sources, saved = [], [], 0
        for found in self._decoder.pattern.finditer(self._parent.data):
            size = len(self._decoder.decode(found[0]))
            begins.append(found.start() - saved)
            sources.append((found.start(), found.end(), size))
            saved += found.end() - found.start() - size
        return begins, sources

    def find_possible_starts(self) -> range:
        """Return the possible starts of the text, if the first bytes are the rest of an escape."""
        found = _CUT_START_PATTERN.match(self.data)
        return range((found.end() if found else 0) + 1)

    def find_end(self) -> int:
        """Return the end of the text, without the beginning of an escape."""
        found = _CUT_END_PATTERN.search(self.data, max(0, len(self.data) - _MAX_CUT_SIZE))
        return found.start() if found else len(self.data)


def iter_decodings(data: bytes) -> Iterator[DecodedText]:
    """Yield the text, then every decoding of it that differs."""
    text = DecodedText(data)
    yield text
    for decoder, inner in _DECODERS:
        decoded = text.decode(decoder)
        if decoded is not None:
            yield decoded
            yield from filter(None, map(decoded.decode, inner))
