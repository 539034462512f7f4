"""The languages of the portal, and which one a visitor reads.

Texts are written in English where they are used; `locale/<code>/portal.po` holds the others. What services say (why a
job waits, what an error means) are messages with an id and arguments, of which `services.po` has the translations.
`make words` keeps both files in step with the source.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

from markupsafe import Markup

from holdfast.core.messages import Argument, Message, split_template, translate

from .code_spans import coded

CODES = {"en": "English", "zh-Hans": "简体中文", "zh-Hant": "繁體中文"}
DEFAULT = "en"
MAX_HEADER_LENGTH = 1000
_FOLDER = Path(__file__).with_name("locale")
_TRADITIONAL = ("hant", "tw", "hk", "mo")
# How messages are joined, and how that is written in Chinese.
_CHINESE = {"; ": "；", ". ": "。", "? ": "？", ": ": "：", ", ": "，"}
_JOINT = re.compile("|".join(map(re.escape, _CHINESE)))
_WORDS = re.compile(r"(?<![{a-z_0-9])[A-Za-z]")  # outside of braces
_HAN = re.compile(r"[\u3000-\u303f\u4e00-\u9fff\uff00-\uffef]")


def N_(text: str) -> str:
    """Marks a text that is said elsewhere, by `_(name)` or `visit.say(name)`, so that it is translated."""
    return text


def choose_language(kept: str | None, accepted: str) -> str:
    """`kept` is what the visitor chose, `accepted` what the browser asks for (Accept-Language)."""
    if kept in CODES:
        return str(kept)
    for tag in _by_preference(accepted[:MAX_HEADER_LENGTH]):
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
    messages: dict[str, str] = field(default_factory=dict)  # ids -> in this language

    def say(self, text: str) -> str:
        return self.texts.get(text) or text

    def count(self, one: str, many: str, number: int) -> str:
        """Chinese has one form for every number."""
        return self.plurals.get(one) or (one if number == 1 else many)

    def tell(self, text: str) -> str:
        """A message of a service; in English where there is no translation."""
        return text if self.code == DEFAULT else translate(text, self._look_up, _fill)

    def _look_up(self, id: str) -> str:
        found = self.messages.get(id)
        if found is None and not _WORDS.search(id):
            return _JOINT.sub(lambda joint: _CHINESE[joint[0]], id)
        if found is None and f"{id}." in self.messages:
            return self.messages[f"{id}."].rstrip("。. ")
        return found or id

    def told(self, text: str, stop: bool = False) -> Markup:
        """The same for a page, where English is marked as such for screen readers. `stop`: with a full stop, as a hint
        follows."""
        shown = self.tell(text)
        made = coded(self.ended(shown) if stop else shown)
        known = (
            self.code == DEFAULT
            or not text.strip()
            or (text.id if isinstance(text, Message) else text) in self.messages
        )
        return made if known else Markup('<span lang="en">{}</span>').format(made)

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
    words.messages = dict(_messages(code, "services"))
    return words


def _messages(code: str, domain: str) -> Iterator[tuple[Any, str]]:
    from babel.messages.pofile import read_po

    with (_FOLDER / code / f"{domain}.po").open("rb") as file:
        for message in read_po(file):
            if message.id and message.string and not message.fuzzy:
                yield message.id, message.string if isinstance(message.string, str) else message.string[0]


def _fill(template: str, arguments: Mapping[str, Argument]) -> str:
    text = ""
    for fixed, name in split_template(template):
        text = _append(text, fixed)
        if name is not None:
            text = _append(text, str(arguments.get(name, "")))
    return text


def _append(text: str, more: str) -> str:
    """Chinese puts a space between itself and other scripts, and none between its own characters."""
    if more[:1] == " " and (text[-1:] == " " or (_HAN.match(text[-1:]) and _HAN.match(more[1:]))):
        more = more[1:]
    if text[-1:] == " " and _HAN.match(more) and _HAN.match(text[-2:]):
        text = text[:-1]
    return text + more
