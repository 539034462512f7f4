"""Says in another language what services said in English.

A sentence arrives with names and numbers in it: "There is no job train-7". Among the sentences of the source
(`There is no job {ref}`) those that it can have been made from are found by their words; the one that leaves the fewest
English words is taken, and its translation is filled with what stood in the blanks. Texts are anybody's: fixed parts
are sought with `find`, never as regular expressions, and a text that is too long stays English.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

LONGEST = 800  # characters of a text that is taken apart
MOST_LOOKS = 160  # at parts of one text
MOST_WAYS = 6  # in which one sentence is laid over a text
REMEMBERED = 4096
WEAK = 5  # letters: a sentence with fewer of its own fits too much, unless it holds numbers or other sentences
# Blanks whose single words are ours; in all others a single word is somebody's name, and stays.
WORD_BLANKS = frozenset({"kind", "what", "unit", "word", "whose", "who", "otherwise", "fate", "state", "root", "x1"})
LIST_BLANKS = frozenset({"words", "otherwise", "known", "effects", "expected", "gt", "given"})  # "a, b or c"
# How sentences are put one after the other, and how that is written in Chinese.
JOINTS = (("; ", "；"), (". ", "。"), ("? ", "？"), (": ", "："), (", ", "，"))
_BLANK = re.compile(r"\{([a-z_0-9]+)\}")
_WORD = re.compile(r"[A-Za-z]+")
_MEASURE = re.compile(r"\d[\d.]* ([KMGT]i?B|GPU)")  # is written so in every language
_HAN = re.compile(r"[\u3000-\u303f\u4e00-\u9fff\uff00-\uffef]")

Told = tuple[int, str]  # English words that are left, and the text


@dataclass(frozen=True, slots=True)
class Sentence:
    fixed: tuple[str, ...]  # the parts between its blanks: one more than those
    blanks: tuple[str, ...]
    translated: str
    weight: int  # letters of its own

    def ways(self, text: str) -> Iterator[tuple[str, ...]]:
        """What can stand in its blanks, the shortest from the left first."""
        first, last = self.fixed[0], self.fixed[-1]
        end = len(text) - len(last)
        if end >= len(first) and text.startswith(first) and text.endswith(last):
            yield from self._ways(text, len(first), end, 1)

    def _ways(self, text: str, at: int, end: int, number: int) -> Iterator[tuple[str, ...]]:
        if number == len(self.blanks):
            yield (text[at:end],)
            return
        part = self.fixed[number]
        found = text.find(part, at, end)
        for _ in range(MOST_WAYS):
            if found < 0:
                return
            for rest in self._ways(text, found + len(part), end, number + 1):
                yield (text[at:found], *rest)
            found = text.find(part, found + 1, end)


def read_sentence(source: str, translated: str) -> Sentence:
    parts = _BLANK.split(source)
    fixed = tuple(part.replace("{{", "{").replace("}}", "}") for part in parts[::2])
    return Sentence(fixed, tuple(parts[1::2]), translated, sum(map(str.isalpha, "".join(fixed))))


def has_blanks(text: str) -> bool:
    return _BLANK.search(text) is not None


@dataclass(slots=True)
class Teller:
    """`texts` are those without blanks, `sentences` those with."""

    texts: dict[str, str]
    sentences: Iterable[Sentence]
    _by_word: dict[str, list[Sentence]] = field(init=False)
    _told: dict[str, str | None] = field(init=False, default_factory=dict)

    def __post_init__(self) -> None:
        self._by_word = _index(list(self.sentences))

    def tell(self, text: str) -> str | None:
        """None where nobody translated it."""
        if len(text) > LONGEST or not text.strip():
            return self.texts.get(text)
        if text not in self._told:
            if len(self._told) >= REMEMBERED:
                self._told.clear()
            found = _Telling(self.texts, self._by_word).whole(text)
            self._told[text] = found[1] if found else None
        return self._told[text]


@dataclass(slots=True)
class _Telling:
    """One text: what was found out about its parts, and how many looks are left."""

    texts: dict[str, str]
    by_word: dict[str, list[Sentence]]
    known: dict[str, Told | None] = field(default_factory=dict)
    looks: int = MOST_LOOKS

    def whole(self, text: str) -> Told | None:
        if text in self.known or self.looks <= 0:
            return self.known.get(text)
        self.looks -= 1
        self.known[text] = None  # while it is looked at: a text is no part of itself
        if text in self.texts:
            self.known[text] = (0, self.texts[text])
        else:
            self.known[text] = min(self._found(text), key=lambda told: told[0], default=None)
        return self.known[text]

    def _found(self, text: str) -> list[Told]:
        found: list[Told] = []
        for way in (self._listed, self._filled, self._joined):
            found += way(text)
            if any(cost == 0 for cost, _ in found):
                break
        return found

    def _listed(self, text: str) -> Iterator[Told]:
        """Several reasons, or mistakes: each by itself, before anything is sought across them."""
        parts = text.split("; ")
        if 1 < len(parts) <= 12:
            told = [self._part(part) for part in parts]
            if any(told):
                yield _sum(told, parts, "；")

    def _filled(self, text: str) -> Iterator[Told]:
        for sentence in self._candidates(text):
            for number, held in enumerate(sentence.ways(text)):
                if number == MOST_WAYS:
                    break
                told = [self._in_blank(*pair) for pair in zip(sentence.blanks, held, strict=True)]
                if sentence.weight >= WEAK or any(told) or all(map(_is_amount, held)):
                    yield _filled_in(sentence, held, told)

    def _candidates(self, text: str) -> list[Sentence]:
        """Those whose rarest word is in it; the one with the most words of its own first."""
        found = [s for word in {"", *_WORD.findall(text)} for s in self.by_word.get(word, ())]
        return sorted(found, key=lambda sentence: (-sentence.weight, sentence.fixed))

    def _in_blank(self, blank: str, value: str) -> Told | None:
        if " " in value.strip() or value[:1] in " ,:":
            return self.whole(value)
        word = self.texts.get(value) if blank in WORD_BLANKS else None
        return (0, word) if word else None

    def _joined(self, text: str) -> Iterator[Told]:
        """Two of them, one after the other; one may be unknown."""
        for joint, written in JOINTS:
            at = text.find(joint)
            for _ in range(3):
                if at < 0:
                    break
                first, second = text[:at], text[at + len(joint) :]
                told = [self._head(first, joint), self._part(second)]
                if any(told):
                    yield _sum(told, [first, second], written)
                at = text.find(joint, at + 1)
        yield from self._with_end(text)
        yield from self._about(text)

    def _with_end(self, text: str) -> Iterator[Told]:
        """… (and 2 more)"""
        at = text.rfind(" (")
        tail = self.whole(text[at:]) if at > 0 else None
        if tail:
            yield _sum([self._part(text[:at]), tail], [text[:at], ""], "")

    def _about(self, text: str) -> Iterator[Told]:
        """'/proc' is the system's own: a path or a field, and what is said of it."""
        at = text.find("' ") + 1 if text[:1] == "'" else text.find(" ")
        if at > 0 and not text[:at].isalnum():
            said = self.whole(text[at + 1 :])
            if said:
                yield _cost(text[:at]) + said[0] + 3, f"{text[:at]} {said[1]}"

    def _head(self, text: str, joint: str) -> Told | None:
        if joint[0] not in ".?":
            return self._part(text)
        ended = self.texts.get(text + joint)  # its full stop went with the joint
        found = (0, ended) if ended else self._part(text + joint[0]) or self._part(text)
        return (found[0], found[1].rstrip(" 。？")) if found else None

    def _part(self, text: str) -> Told | None:
        if " " in text.strip():
            return self.whole(text)
        word = self.texts.get(text) if text[:1].isupper() else None  # a state; other words are somebody's names
        return (0, word) if word else None


def _sum(told: list[Told | None], parts: list[str], written: str) -> Told:
    """Dearer than one sentence that says it all: what stands in blanks may look like a joint, too."""
    each = [new or (_cost(old), old) for new, old in zip(told, parts, strict=True)]
    return sum(cost for cost, _ in each) + 2, written.join(text for _, text in each)


def _filled_in(sentence: Sentence, held: tuple[str, ...], told: list[Told | None]) -> Told:
    cost, values = 0, dict[str, str]()
    for blank, value, new in zip(sentence.blanks, held, told, strict=True):
        cost += new[0] if new else _cost(value)
        values.setdefault(blank, new[1] if new else _plain(blank, value))
    return cost, _fill(sentence.translated, values)


def _plain(blank: str, value: str) -> str:
    """What was not understood stays, but for the signs around it."""
    if blank in LIST_BLANKS:
        return value.replace(", ", "、").replace(" or ", " 或 ").replace(" and ", " 和 ")
    return f"：{value[2:]}" if value.startswith(": ") else value


def _fill(translated: str, held: dict[str, str]) -> str:
    """Not `format`: what is put in is never read again."""
    filled = ""
    for number, part in enumerate(_BLANK.split(translated)):
        filled = _append(filled, held.get(part, "") if number % 2 else part.replace("{{", "{").replace("}}", "}"))
    return filled


def _append(text: str, more: str) -> str:
    """Chinese sets off what is not Chinese with a blank, and its own words with none."""
    if more[:1] == " " and (text[-1:] == " " or (_HAN.match(text[-1:]) and _HAN.match(more[1:]))):
        more = more[1:]
    if text[-1:] == " " and _HAN.match(more) and _HAN.match(text[-2:]):
        text = text[:-1]
    return text + more


def _cost(value: str) -> int:
    """Words that stay English; several in one blank are likelier a sentence that was not understood than a name."""
    return 0 if _MEASURE.fullmatch(value) else len(_WORD.findall(value)) + (" " in value.strip())


def _is_amount(value: str) -> bool:
    return all(part[:1].isdigit() or len(part) <= 3 for part in value.split(" ")) and "," not in value


def _index(sentences: list[Sentence]) -> dict[str, list[Sentence]]:
    """By the rarest of its words."""
    counts = Counter(word for sentence in sentences for word in set(_whole_words(sentence)))
    found: dict[str, list[Sentence]] = {}
    for sentence in sentences:
        word = min(_whole_words(sentence), key=lambda word: (counts[word], word), default="")
        found.setdefault(word, []).append(sentence)
    return found


def _whole_words(sentence: Sentence) -> list[str]:
    """Words that cannot run into what stands in a blank beside them."""
    found = []
    last = len(sentence.fixed) - 1
    for number, part in enumerate(sentence.fixed):
        for word in _WORD.finditer(part):
            open_left = number > 0 and word.start() == 0
            open_right = number < last and word.end() == len(part)
            if not open_left and not open_right:
                found.append(word[0])
    return found
