"""The languages of the portal, and which one a visitor reads.

Texts are written in English where they are used; `locale/<code>/portal.po` holds the others. What services say (why a
job waits, what an error means) arrives here as English sentences with names and numbers in them, of which
`services.po` has the translations: `Words.tell` finds them. `make words` keeps both files in step with the source.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

from markupsafe import Markup

from .code_spans import coded
from .telling import Sentence, Teller, has_blanks, read_sentence

CODES = {"en": "English", "zh-Hans": "简体中文", "zh-Hant": "繁體中文"}
DEFAULT = "en"
LONGEST_HEADER = 1000
_FOLDER = Path(__file__).with_name("locale")
_TRADITIONAL = ("hant", "tw", "hk", "mo")


def N_(text: str) -> str:
    """Marks a text that is said elsewhere, by `_(name)` or `visit.say(name)`, so that it is translated."""
    return text


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
    plurals: dict[str, str] = field(default_factory=dict)  # the singular as written -> in this language
    teller: Teller | None = None

    def say(self, text: str) -> str:
        return self.texts.get(text) or text

    def count(self, one: str, many: str, number: int) -> str:
        """Chinese has one form for every number."""
        return self.plurals.get(one) or (one if number == 1 else many)

    def tell(self, text: str) -> str:
        """A sentence that a service made; as it is where nobody translated it."""
        return (self.teller and self.teller.tell(text)) or text

    def told(self, text: str, stop: bool = False) -> Markup:
        """The same for a page, where what nobody translated is marked as English: for those who have it read aloud.
        `stop`: with a full stop, as a hint follows."""
        if self.teller is None or not text.strip():
            return coded(self.ended(text) if stop else text)
        found = self.teller.tell(text)
        shown = text if found is None else found
        made = coded(self.ended(shown) if stop else shown)
        return made if found is not None else Markup('<span lang="en">{}</span>').format(made)

    def ended(self, text: str) -> str:
        """With a full stop, where a hint follows it."""
        return text if not text or text[-1] in ".?!:…。？！：" else text + ("。" if self.code.startswith("zh") else ".")


@cache
def words_in(code: str) -> Words:
    """Read once, on first use: English costs nothing."""
    return Words(DEFAULT) if code not in CODES or code == DEFAULT else _read(code)


def _read(code: str) -> Words:
    words = Words(code)
    for source, translated in _messages(code, "portal"):
        if isinstance(source, str):
            words.texts[source] = translated
        else:
            words.plurals[source[0]] = translated
    plain, sentences = dict[str, str](), list[Sentence]()
    for source, translated in _messages(code, "services"):
        if has_blanks(source):
            sentences.append(read_sentence(source, translated))
        else:
            plain[source] = translated
    words.teller = Teller(plain, sentences)
    return words


def _messages(code: str, domain: str) -> Iterator[tuple[Any, str]]:
    from babel.messages.pofile import read_po

    with (_FOLDER / code / f"{domain}.po").open("rb") as file:
        for message in read_po(file):
            if message.id and message.string and not message.fuzzy:
                yield message.id, message.string if isinstance(message.string, str) else message.string[0]
