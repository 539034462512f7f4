"""Hides the values of secrets in texts that programs wrote.

A value is found as it is, as JSON and Python write it in a string, percent-encoded, and as base64 of the whole value;
of a value with several lines, also each long line by itself. Other transformations are not recognised: a value that is
hashed, encrypted, reversed, split, or encoded together with other text.

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

MIN_SECRET_LENGTH = 4  # characters; shorter values are not hidden
MIN_VARIABLE_LENGTH = 8  # of variables that admins give to jobs: most hold ordinary words such as a port or a region
MIN_LINE_LENGTH = 16  # of one line of a value that has several
MAX_FORMS = 5000  # to look for; with more, all text is hidden
MAX_OVERLAP = 8192  # bytes of a value that may stand across the edge of a text

_STAR = b"*"
_STARS = re.compile(r"\*{6,}")
_TOKEN = re.compile(rb"hf_[a-z0-9]{8,40}_[A-Za-z0-9_-]{43}")  # of this platform


class SecretMasker:
    def __init__(self, values: Iterable[str], *, hides_all: bool = False) -> None:
        forms = {form for value in set(values) for form in encoded_forms(value)}
        self._forms = sorted(forms, key=len, reverse=True)  # one value may be a part of another
        self._hides_all = hides_all or len(self._forms) > MAX_FORMS

    @property
    def has_values(self) -> bool:
        return self._hides_all or bool(self._forms)

    def mask_bytes(self, data: bytes, *, cut_start: bool = False, cut_end: bool = False) -> bytes:
        """The same number of bytes with stars for each value. `cut_start`, `cut_end`: more text was there, so a value
        may have lost a part."""
        if self._hides_all:
            return _STAR * len(data)
        data = _TOKEN.sub(lambda found: _STAR * len(found[0]), data)
        for form in self._forms:
            if form in data:
                data = data.replace(form, _STAR * len(form))
            if cut_start and (size := _overlap(form, data)):
                data = _STAR * size + data[size:]
            if cut_end and (size := _overlap(data, form)):
                data = data[:-size] + _STAR * size
        return data

    def mask_text(self, text: str) -> str:
        """The text with MASK for each value."""
        if self._hides_all:
            return MASK if text else text
        raw = text.encode("utf-8", "surrogatepass")
        masked = self.mask_bytes(raw)
        return text if masked == raw else shorten_stars(masked.decode("utf-8", "surrogatepass"))


def shorten_stars(text: str) -> str:
    """MASK for every long run of stars, so that nothing tells how long a value is."""
    return _STARS.sub(MASK, text)


def secret_values(secrets: Any) -> Iterator[str]:
    """Every value among a job's secrets that is long enough to be hidden."""
    if isinstance(secrets, Mapping):
        for inner in secrets.values():
            yield from secret_values(inner)
    elif isinstance(secrets, list | tuple):
        for inner in secrets:
            yield from secret_values(inner)
    elif secrets is not None and not isinstance(secrets, bool) and len(str(secrets).strip()) >= MIN_SECRET_LENGTH:
        yield str(secrets)


def variable_values(variables: Mapping[str, str]) -> Iterator[str]:
    """Those among variables that are long enough to be hidden."""
    return (value for value in variables.values() if len(value.strip()) >= MIN_VARIABLE_LENGTH)


def encoded_forms(value: str) -> set[bytes]:
    """The bytes by which a value may stand in a text."""
    plain = value.strip()
    lines = [line.strip() for line in plain.splitlines()]
    texts = {
        plain,
        json.dumps(plain)[1:-1],
        json.dumps(plain, ensure_ascii=False)[1:-1],
        repr(plain)[1:-1],
        quote(plain, safe="", errors="replace"),
        quote_plus(plain, errors="replace"),
        *(line for line in lines if len(lines) > 1 and len(line) >= MIN_LINE_LENGTH),
    }
    forms = {text.encode("utf-8", "surrogatepass") for text in texts}
    for raw in (plain.encode("utf-8", "surrogatepass"), value.encode("utf-8", "surrogatepass")):
        forms |= {encode(raw).rstrip(b"=") for encode in (base64.b64encode, base64.urlsafe_b64encode)}
    return {form for form in forms if len(form) >= MIN_SECRET_LENGTH}


def _overlap(left: bytes, right: bytes) -> int:
    """How many bytes at the end of `left` are the beginning of `right`, without being all of either."""
    most = min(len(left), len(right), MAX_OVERLAP) - 1
    return next((size for size in range(most, MIN_SECRET_LENGTH - 1, -1) if left.endswith(right[:size])), 0)
