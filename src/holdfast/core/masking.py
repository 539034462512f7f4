"""Hides the values of secrets in texts that programs wrote.

A value is found as it is, with any of its characters percent-encoded, backslash-escaped (JSON, Python, C, shell) or
written as HTML references, in most cases also when escaped twice, and as base64 of the whole value; of a value with
several lines, also each long line by itself. Other transformations are not recognised: a value that is hashed,
encrypted, reversed, split, or base64 of it together with other text.

Short values are left alone: to hide every "1" or "on" would destroy the text, and tell what the secret is.
"""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any
from urllib.parse import quote, quote_plus

from .codec import MASK
from .escapes import DecodedText, iter_decodings
from .messages import map_text

MIN_SECRET_LENGTH = 4  # characters; shorter values are not masked
MIN_VARIABLE_LENGTH = 8  # for variables set by admins: most are ordinary words such as a port or a region
MIN_LINE_LENGTH = 16  # of one line of a value that has several
MAX_SEARCHED_FORMS = 5000  # to search for; with more, all text is masked
MAX_OVERLAP_SIZE = 8192  # bytes of a value that may be cut by the edge of a text
MAX_CANDIDATES = 1024  # possible starts of a value there: a bound for repetitive texts and values
LONG_CANDIDATE_SIZE = 64  # bytes
MAX_LONG_CANDIDATES = 16  # with more, the next one counts as the value

_MASK_BYTE = b"*"
_STARS_PATTERN = re.compile(r"\*{6,}")
_TOKEN_PATTERN = re.compile(rb"hf_[a-z0-9]{8,40}_[A-Za-z0-9_-]{43}")  # of this platform


class SecretMasker:
    def __init__(self, values: Iterable[str], *, hides_all: bool = False) -> None:
        values = set(values)
        forms = {form for value in values for form in build_encoded_forms(value)}
        self._plain = sorted({form for value in values for form in build_plain_forms(value)})
        self._forms = sorted(forms, key=len, reverse=True)  # one value may be a part of another
        self._hides_all = hides_all or len(self._forms) > MAX_SEARCHED_FORMS

    @property
    def is_active(self) -> bool:
        return self._hides_all or bool(self._forms)

    def mask_bytes(self, data: bytes, *, cut_start: bool = False, cut_end: bool = False) -> bytes:
        """Replace each byte of a value by a star. `cut_start`, `cut_end`: the text was cut there, maybe in a value."""
        if self._hides_all:
            return _MASK_BYTE * len(data)
        masked = bytearray(self._mask_forms(data, cut_start, cut_end))
        for text in iter_decodings(data) if self._plain else ():
            for start, end in self._iter_value_spans(text, cut_start, cut_end):
                masked[start:end] = _MASK_BYTE * (end - start)
        return bytes(masked)

    def _mask_forms(self, data: bytes, cut_start: bool, cut_end: bool) -> bytes:
        data = _TOKEN_PATTERN.sub(lambda found: _MASK_BYTE * len(found[0]), data)
        for form in self._forms:
            if form in data:
                data = data.replace(form, _MASK_BYTE * len(form))
            if cut_start and (size := _measure_overlap(form, data)):
                data = _MASK_BYTE * size + data[size:]
            if cut_end and (size := _measure_overlap(data, form)):
                data = data[:-size] + _MASK_BYTE * size
        return data

    def _iter_value_spans(self, text: DecodedText, cut_start: bool, cut_end: bool) -> Iterator[tuple[int, int]]:
        """Yield where the original of `text` contains values."""
        for value in self._plain:
            at = text.data.find(value)
            while at >= 0:
                yield text.find_source_span(at, at + len(value))
                at = text.data.find(value, at + len(value))
        if cut_start:
            yield from self._iter_cut_start_spans(text)
        if cut_end:
            yield from self._iter_cut_end_spans(text)

    def _iter_cut_start_spans(self, text: DecodedText) -> Iterator[tuple[int, int]]:
        for start in text.find_possible_starts():
            rest = text.data[start : start + MAX_OVERLAP_SIZE + 1]
            for value in self._plain:
                if size := _measure_overlap(value, rest):
                    yield 0, text.find_source_span(start, start + size)[1]

    def _iter_cut_end_spans(self, text: DecodedText) -> Iterator[tuple[int, int]]:
        end, whole = text.find_end(), len(text.data)
        rest = text.data[max(0, end - MAX_OVERLAP_SIZE - 1) : end]
        for value in self._plain:
            if size := _measure_overlap(rest, value):
                yield text.find_source_span(end - size, whole)

    def mask_text(self, text: str) -> str:
        """Replace each value by MASK. A message stays a message; its arguments are searched."""
        if self._hides_all:
            return MASK if text else text
        return map_text(text, self._mask_plain_text)

    def _mask_plain_text(self, text: str) -> str:
        raw = text.encode("utf-8", "surrogatepass")
        masked = self.mask_bytes(raw)
        return text if masked == raw else shorten_stars(masked.decode("utf-8", "surrogatepass"))


def shorten_stars(text: str) -> str:
    """Replace every long run of stars by MASK, so that it does not reveal the length of a value."""
    return _STARS_PATTERN.sub(MASK, text)


def iter_maskable_secret_values(secrets: Any) -> Iterator[str]:
    """Yield every value of a job's secrets that is long enough to be masked."""
    if isinstance(secrets, Mapping):
        for inner in secrets.values():
            yield from iter_maskable_secret_values(inner)
    elif isinstance(secrets, list | tuple):
        for inner in secrets:
            yield from iter_maskable_secret_values(inner)
    elif secrets is not None and not isinstance(secrets, bool) and len(str(secrets).strip()) >= MIN_SECRET_LENGTH:
        yield str(secrets)


def iter_maskable_variable_values(variables: Mapping[str, str]) -> Iterator[str]:
    """Yield the values of variables that are long enough to be masked."""
    return (value for value in variables.values() if len(value.strip()) >= MIN_VARIABLE_LENGTH)


def build_plain_forms(value: str) -> set[bytes]:
    """Return a value and its long lines, as UTF-8."""
    plain = value.strip()
    lines = [line.strip() for line in plain.splitlines()]
    texts = {plain, *(line for line in lines if len(lines) > 1 and len(line) >= MIN_LINE_LENGTH)}
    forms = {text.encode("utf-8", "surrogatepass") for text in texts}
    return {form for form in forms if len(form) >= MIN_SECRET_LENGTH}


def build_encoded_forms(value: str) -> set[bytes]:
    """Return common encodings of a value that are not escapes."""
    plain = value.strip()
    texts = {
        json.dumps(plain)[1:-1],
        json.dumps(plain, ensure_ascii=False)[1:-1],
        repr(plain)[1:-1],
        quote(plain, safe="", errors="replace"),
        quote_plus(plain, errors="replace"),
    }
    forms = build_plain_forms(value) | {text.encode("utf-8", "surrogatepass") for text in texts}
    for raw in (plain.encode("utf-8", "surrogatepass"), value.encode("utf-8", "surrogatepass")):
        forms |= {encode(raw).rstrip(b"=") for encode in (base64.b64encode, base64.urlsafe_b64encode)}
    return {form for form in forms if len(form) >= MIN_SECRET_LENGTH}


def _measure_overlap(left: bytes, right: bytes) -> int:
    """Return how many bytes at the end of `left` are the start of `right`, without being all of either."""
    most = min(len(left), len(right), MAX_OVERLAP_SIZE) - 1
    if most < MIN_SECRET_LENGTH:
        return 0
    head, long_ones = right[:MIN_SECRET_LENGTH], 0
    at = left.find(head, len(left) - most)
    for _ in range(MAX_CANDIDATES):
        if at < 0:
            return 0
        if right.startswith(left[at : at + LONG_CANDIDATE_SIZE]):
            if long_ones >= MAX_LONG_CANDIDATES or right.startswith(left[at:]):
                return len(left) - at
            long_ones += 1
        at = left.find(head, at + 1)
    return 0
