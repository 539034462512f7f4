"""Reading a tree field by field while collecting every problem with its path and line.

A `Kind` knows how to read one value (and how JSON Schema describes it); `Fields` hands the values of one mapping to
kinds, and at the end names the keys nobody asked for.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from itertools import islice
from typing import Any, Generic, NamedTuple, TypeVar

from holdfast.core.errors import InvalidJob, Problem
from holdfast.core.messages import msg

from .document import Node
from .paths import clip, join_path

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)
D = TypeVar("D")

MAX_PROBLEMS = 100  # nobody reads more, and hostile files could hold thousands
MAX_GUESS_LENGTH = 64  # characters of a key for which we look for a similar one
MAX_GUESSES = 100  # words it is compared with


Hint = str | Callable[[], str | None] | None  # a function when it takes time to find and nobody may need it


class Wrong(Exception):
    """A value that cannot be accepted; becomes a Problem where its path is known."""

    def __init__(self, message: str, hint: Hint = None, *, rule: str = "", expected: Any = None) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint
        self.rule, self.expected = rule, expected  # see Problem


class Report:
    """Everything found so far."""

    def __init__(self, problems: Iterable[Problem] = ()) -> None:
        self.problems = list(problems)
        self.warnings: list[Problem] = []
        self._more = 0

    @property
    def full(self) -> bool:
        return len(self.problems) >= MAX_PROBLEMS

    def add(
        self, field: str, line: int | None, message: str, hint: Hint = None, *, rule: str = "", expected: Any = None
    ) -> None:
        if self.full:
            self._more += 1
        else:
            said = hint() if callable(hint) else hint
            self.problems.append(Problem(field, message, said, line, rule, expected))

    def warn(self, field: str, line: int | None, message: str, hint: Hint = None) -> None:
        if len(self.warnings) < MAX_PROBLEMS:
            self.warnings.append(Problem(field, message, hint() if callable(hint) else hint, line))

    def raise_problems(self) -> None:
        self.problems.sort(key=lambda problem: problem.line or 0)
        if self._more:
            self.problems.append(Problem("", msg("and {more} more problems", more=self._more), rule="more"))
        if self.problems:
            raise InvalidJob(self.problems)


@dataclass(frozen=True, slots=True)
class Kind(Generic[T_co]):
    """What a field may hold."""

    read: Callable[[At], T_co]  # raises Wrong
    schema: Mapping[str, Any]  # the same in JSON Schema


@dataclass(frozen=True, slots=True)
class At:
    """A value and where it stands."""

    node: Node
    path: str
    report: Report

    def read(self, kind: Kind[T], default: D) -> T | D:
        return self.apply(kind.read, default)

    def apply(self, function: Callable[[At], T], default: D) -> T | D:
        """What the function makes of it; the default, and a problem, when it says Wrong."""
        try:
            return function(self)
        except Wrong as wrong:
            self.problem(wrong.message, wrong.hint, rule=wrong.rule, expected=wrong.expected)
            return default

    def problem(self, message: str, hint: Hint = None, *, rule: str = "", expected: Any = None) -> None:
        self.report.add(self.path, self.node.line, message, hint, rule=rule, expected=expected)

    def warn(self, message: str, hint: Hint = None) -> None:
        self.report.warn(self.path, self.node.line, message, hint)

    def child(self, step: str | int, node: Node) -> At:
        return At(node, join_path(self.path, step), self.report)

    def items(self) -> list[At]:
        if not isinstance(self.node.value, list):
            said = msg("must be a list, not {node}", node=describe(self.node))
            raise Wrong(said, _as_list(self.node), rule="type", expected="array")
        return [self.child(index, node) for index, node in enumerate(self.node.value)]

    def entries(self) -> dict[str, At]:
        if not isinstance(self.node.value, dict):
            said = msg("must be a mapping of names to values, not {node}", node=describe(self.node))
            raise Wrong(said, _as_mapping(self.node), rule="type", expected="object")
        return {key: self.child(key, node) for key, node in self.node.value.items()}


class Key(NamedTuple):
    """A field a mapping may have."""

    kind: Kind[Any]
    about: str


class Fields:
    """The fields of one mapping. Keys that hold nothing (`key:`) count as absent."""

    def __init__(self, at: At) -> None:
        self.at = at
        self._entries = at.entries()
        self._known: list[str] = []

    def get(self, key: str) -> At | None:
        self._known.append(key)
        found = self._entries.get(key)
        return None if found is None or found.node.value is None else found

    def has(self, key: str) -> bool:
        """Written, even if with nothing in it."""
        return key in self._entries

    def take(self, key: str, kind: Kind[T], default: D) -> T | D:
        found = self.get(key)
        return default if found is None else found.read(kind, default)

    def need(self, key: str, kind: Kind[T], default: D) -> T | D:
        found = self.get(key)
        if found is not None:
            return found.read(kind, default)
        self.missing(key)
        return default

    def missing(self, key: str) -> None:
        def hint() -> str | None:
            return guess(key, (name for name in self._entries if name not in self._known), ask_if_meant)

        path = join_path(self.at.path, key)
        self.at.report.add(path, self.at.node.line, msg("is required"), hint, rule="required", expected=key)

    def table(self, keys: Mapping[str, Key]) -> dict[str, Any]:
        """What is there, by name; what cannot be read is reported and left out."""
        values = {name: self.take(name, key.kind, _ABSENT) for name, key in keys.items()}
        return {name: value for name, value in values.items() if value is not _ABSENT}

    def close(self, tolerated: Collection[str] = ()) -> None:
        """Report every key that was not asked for."""
        known = set(self._known)
        for name, at in self._entries.items():
            if name not in known and name not in tolerated:
                advice = partial(self._advice, name)
                at.problem(msg("is not a known field"), advice, rule="additionalProperties", expected=clip(name, 255))

    def _advice(self, name: str) -> str:
        return guess(name, self._known) or list_known(dict.fromkeys(self._known))


_ABSENT = object()


def ask_if_meant(word: str) -> str:
    return msg("Is {word} meant to be it?", word=repr(word))


def _did_you_mean(word: str) -> str:
    return msg("Did you mean {word}?", word=repr(word))


def guess(name: str, known: Iterable[str], ask: Callable[[str], str] = _did_you_mean) -> str | None:
    """A hint that names the most similar known word, if one is similar."""
    if len(name) > MAX_GUESS_LENGTH:
        return None
    short = (word for word in known if len(word) <= MAX_GUESS_LENGTH)
    by_folded = {_fold(word): word for word in islice(short, MAX_GUESSES)}
    near = difflib.get_close_matches(_fold(name), by_folded, n=1, cutoff=0.7)
    return ask(by_folded[near[0]]) if near else None


def guess_or_list(name: str, known: Collection[str]) -> str | None:
    """A hint that names the most similar known word, or else all that there are."""
    return guess(name, known) or (list_known(known) if known else None)


def list_known(names: Iterable[str]) -> str:
    """A hint that names what there is."""
    listed = [clip(name, 40) for name in islice(names, 41)]
    return msg("Known here: {listed}{x1}", listed=", ".join(listed[:40]), x1=", …" if len(listed) > 40 else ".")


def _fold(word: str) -> str:
    return word.lower().replace("_", "").replace("-", "")


def _as_list(node: Node) -> str | None:
    """One value where several are possible: how to write it."""
    word = _one_word(node)
    return msg('Make it a list: ["{word}"].', word=clip(word)) if word else None


def _as_mapping(node: Node) -> str | None:
    """A=1, alone or in a list, as other tools write it."""
    first = node.value[0] if isinstance(node.value, list) and node.value else node
    name, equals, _ = (_one_word(first) or "").partition("=")
    return (
        msg("Write {name}: VALUE instead of {name}=VALUE, each on its own line.", name=clip(name))
        if name and equals
        else None
    )


def _one_word(node: Node) -> str | None:
    return node.value if isinstance(node.value, str) and not set(node.value) & set('\n"\\') else node.written


def describe(node: Node) -> str:
    """A value in a few words, for messages."""
    value = node.value
    if isinstance(value, dict):
        return msg("a mapping")
    if isinstance(value, list):
        return msg("a list")
    if value is None:
        return "empty"
    if isinstance(value, bool):
        return str(value).lower()
    return repr(clip(value)) if isinstance(value, str) else clip(str(value))
