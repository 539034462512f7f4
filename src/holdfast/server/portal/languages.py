"""The languages of the portal, and which one a visitor reads.

Texts are written in English where they are used; `locale/<code>/portal.po` holds the others. What services say (why a
job waits, what an error means) arrives here as English sentences with names and numbers in them: `Words.tell` finds the
sentence it was made from, and says it in the visitor's language.
"""

from __future__ import annotations

import logging
import re
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

log = logging.getLogger(__name__)

CODES = {"en": "English", "zh-Hans": "简体中文", "zh-Hant": "繁體中文"}
DEFAULT = "en"
LONGEST_HEADER = 1000
REMEMBERED = 4096  # sentences
_FOLDER = Path(__file__).with_name("locale")
_TRADITIONAL = ("hant", "tw", "hk", "mo")
_BLANK = re.compile(r"\{[a-z_0-9]+\}")


def choose_language(kept: str | None, accepted: str) -> str:
    """`kept` is what the visitor chose, `accepted` what the browser asks for (Accept-Language)."""
    if kept in CODES:
        return str(kept)
    for tag in _by_preference(accepted[:LONGEST_HEADER]):
        first, *more = tag.lower().split("-")
        if first == "zh":
            return "zh-Hant" if any(part in _TRADITIONAL for part in more) else "zh-Hans"
        if first == "en":
            return "en"
    return DEFAULT


def _by_preference(header: str) -> list[str]:
    weighed = []
    for part in header.split(","):
        tag, _, quality = part.strip().partition(";q=")
        try:
            weight = float(quality or 1)
        except ValueError:
            weight = 0.0
        if tag and weight > 0:
            weighed.append((weight, tag))
    return [tag for _, tag in sorted(weighed, key=lambda found: -found[0])]


@dataclass(slots=True)
class Words:
    """All texts in one language. English is its own translation."""

    code: str
    texts: dict[str, str] = field(default_factory=dict)  # as written -> in this language
    plurals: dict[str, tuple[str, ...]] = field(default_factory=dict)
    patterns: dict[str, list[tuple[re.Pattern[str], str]]] = field(default_factory=dict)  # by their first word
    told: dict[str, str] = field(default_factory=dict)

    def say(self, text: str) -> str:
        return self.texts.get(text) or text

    def count(self, one: str, many: str, number: int) -> str:
        """Chinese has one form for every number."""
        found = self.plurals.get(one)
        if found:
            return found[0]
        return one if number == 1 else many

    def tell(self, text: str) -> str:
        """A sentence that a service made; as it is where nobody translated it."""
        if self.code == DEFAULT or not text:
            return text
        found = self.told.get(text)
        if found is None:
            if len(self.told) >= REMEMBERED:
                self.told.clear()
            found = self.told[text] = self._find(text)
        return found

    def _find(self, text: str) -> str:
        if text in self.texts:
            return self.texts[text] or text
        for pattern, translated in (*self.patterns.get(_first_word(text), ()), *self.patterns.get("", ())):
            match = pattern.fullmatch(text)
            if match:
                return str(translated.format(**match.groupdict()))
        return text


@cache
def words_in(code: str) -> Words:
    """Read once, on first use: English costs nothing."""
    return Words(DEFAULT) if code not in CODES or code == DEFAULT else _read(code)


def _read(code: str) -> Words:
    from babel.messages.pofile import read_po

    words = Words(code)
    path = _FOLDER / code / "portal.po"
    with path.open("rb") as file:
        for message in read_po(file):
            if message.id and message.string and not message.fuzzy:
                _add(words, message.id, message.string)
    return words


def _add(words: Words, source: Any, translated: Any) -> None:
    if not isinstance(source, str):
        words.plurals[source[0]] = tuple(translated)
        return
    words.texts[source] = str(translated)
    if _BLANK.search(source):
        _add_pattern(words, source, str(translated))


def _add_pattern(words: Words, source: str, translated: str) -> None:
    pattern = re.compile(re.sub(r"\\\{([a-z_0-9]+)\\\}", r"(?P<\1>.+?)", re.escape(source)), re.DOTALL)
    words.patterns.setdefault(_first_word(source), []).append((pattern, translated))


def _first_word(text: str) -> str:
    """Empty where a sentence begins with a blank: such ones are tried for every text."""
    first = text.split(" ", 1)[0]
    return "" if "{" in first else first
