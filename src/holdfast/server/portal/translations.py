"""Languages of the portal, and the choice of one for a visitor.

Texts are written in English where they are used; `locale/<code>/portal.po` has the translations. Texts of services (why
a job is pending, what an error means) are messages with an id and arguments, translated by `services.po`.
`make translations` keeps both files in sync with the source.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

from markupsafe import Markup

from holdfast.core.messages import Argument, Message, split_template, translate_message

from .code_spans import render_code_spans

LANGUAGE_NAMES = {"en": "English", "zh-Hans": "简体中文", "zh-Hant": "繁體中文"}
DEFAULT_LANGUAGE = "en"
MAX_ACCEPT_LANGUAGE_LENGTH = 1000
_LOCALE_FOLDER = Path(__file__).with_name("locale")
_TRADITIONAL_TAGS = ("hant", "tw", "hk", "mo")
# How messages are joined, and how that is written in Chinese.
_CHINESE_PUNCTUATION = {"; ": "；", ". ": "。", "? ": "？", ": ": "：", ", ": "，"}
_PUNCTUATION_PATTERN = re.compile("|".join(map(re.escape, _CHINESE_PUNCTUATION)))
_LETTER_PATTERN = re.compile(r"(?<![{a-z_0-9])[A-Za-z]")  # outside of braces
_HAN_CHARACTER_PATTERN = re.compile(r"[\u3000-\u303f\u4e00-\u9fff\uff00-\uffef]")


def N_(text: str) -> str:
    """Mark a text for translation that is translated elsewhere, by `_(name)` or `visit.translate_text(name)`."""
    return text


def choose_language(kept: str | None, accepted: str) -> str:
    """Choose a language: `kept` is the choice of the visitor, `accepted` the Accept-Language header."""
    if kept in LANGUAGE_NAMES:
        return str(kept)
    for tag in _parse_accept_language(accepted[:MAX_ACCEPT_LANGUAGE_LENGTH]):
        first, *more = tag.lower().split("-")
        if first == "zh":
            return "zh-Hant" if any(part in _TRADITIONAL_TAGS for part in more) else "zh-Hans"
        if first == "en":
            return "en"
    return DEFAULT_LANGUAGE


def _parse_accept_language(header: str) -> list[str]:
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
class Translations:
    """The texts of one language. English needs no translation."""

    code: str
    texts: dict[str, str] = field(default_factory=dict)  # as written -> in this language
    plurals: dict[str, str] = field(default_factory=dict)  # the singular as written -> in this language
    messages: dict[str, str] = field(default_factory=dict)  # ids -> in this language

    def translate_text(self, text: str) -> str:
        return self.texts.get(text) or text

    def translate_plural(self, one: str, many: str, number: int) -> str:
        """Translate a counted text. Chinese has one plural form."""
        return self.plurals.get(one) or (one if number == 1 else many)

    def translate_message(self, text: str) -> str:
        """Translate a message of a service; English if there is no translation."""
        return (
            text
            if self.code == DEFAULT_LANGUAGE
            else translate_message(text, self._translate_message_id, _fill_template)
        )

    def _translate_message_id(self, id: str) -> str:
        found = self.messages.get(id)
        if found is None and not _LETTER_PATTERN.search(id):
            return _PUNCTUATION_PATTERN.sub(lambda joint: _CHINESE_PUNCTUATION[joint[0]], id)
        if found is None and f"{id}." in self.messages:
            return self.messages[f"{id}."].rstrip("。. ")
        return found or id

    def render_message(self, text: str, stop: bool = False) -> Markup:
        """Translate for a page; English text gets a `lang` for screen readers. `stop`: a hint follows."""
        shown = self.translate_message(text)
        made = render_code_spans(self.end_sentence(shown) if stop else shown)
        known = (
            self.code == DEFAULT_LANGUAGE
            or not text.strip()
            or (text.id if isinstance(text, Message) else text) in self.messages
        )
        return made if known else Markup('<span lang="en">{}</span>').format(made)

    def end_sentence(self, text: str) -> str:
        """Add a full stop, because a hint follows."""
        return text if not text or text[-1] in ".?!:…。？！：" else text + ("。" if self.code.startswith("zh") else ".")


@cache
def get_translations(code: str) -> Translations:
    return (
        Translations(DEFAULT_LANGUAGE)
        if code not in LANGUAGE_NAMES or code == DEFAULT_LANGUAGE
        else _load_translations(code)
    )


def _load_translations(code: str) -> Translations:
    words = Translations(code)
    for source, translated in _iter_catalog_messages(code, "portal"):
        if isinstance(source, str):
            words.texts[source] = translated
        else:
            words.plurals[source[0]] = translated
    words.messages = dict(_iter_catalog_messages(code, "services"))
    return words


def _iter_catalog_messages(code: str, domain: str) -> Iterator[tuple[Any, str]]:
    from babel.messages.pofile import read_po

    with (_LOCALE_FOLDER / code / f"{domain}.po").open("rb") as file:
        for message in read_po(file):
            if message.id and message.string and not message.fuzzy:
                yield message.id, message.string if isinstance(message.string, str) else message.string[0]


def _fill_template(template: str, arguments: Mapping[str, Argument]) -> str:
    text = ""
    for fixed, name in split_template(template):
        text = _join_scripts(text, fixed)
        if name is not None:
            text = _join_scripts(text, str(arguments.get(name, "")))
    return text


def _join_scripts(text: str, more: str) -> str:
    """Join texts: Chinese needs a space beside other scripts, and none between its own characters."""
    if more[:1] == " " and (
        text[-1:] == " " or (_HAN_CHARACTER_PATTERN.match(text[-1:]) and _HAN_CHARACTER_PATTERN.match(more[1:]))
    ):
        more = more[1:]
    if text[-1:] == " " and _HAN_CHARACTER_PATTERN.match(more) and _HAN_CHARACTER_PATTERN.match(text[-2:]):
        text = text[:-1]
    return text + more
