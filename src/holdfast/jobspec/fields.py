"""Reads a tree field by field and collects every problem with its path and line.

A `FieldKind` reads one value and describes it as JSON Schema; `Fields` reads the values of one mapping, and reports
unknown keys.
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

from .document import DocumentNode
from .paths import clip_text, join_path

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)
D = TypeVar("D")

MAX_PROBLEMS = 100  # hostile files could have thousands
MAX_GUESS_LENGTH = 64  # characters; longer keys get no suggestion
MAX_GUESSES = 100  # names it is compared with


Hint = str | Callable[[], str | None] | None  # a function if it is slow to compute and may not be needed


class InvalidValue(Exception):
    """An invalid value; becomes a Problem where its path is known."""

    def __init__(self, message: str, hint: Hint = None, *, rule: str = "", expected: Any = None) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint
        self.rule, self.expected = rule, expected  # see Problem


class ProblemReport:
    """All problems found so far."""

    def __init__(self, problems: Iterable[Problem] = ()) -> None:
        self.problems = list(problems)
        self.warnings: list[Problem] = []
        self._omitted_count = 0

    @property
    def is_full(self) -> bool:
        return len(self.problems) >= MAX_PROBLEMS

    def add_problem(
        self, field: str, line: int | None, message: str, hint: Hint = None, *, rule: str = "", expected: Any = None
    ) -> None:
        if self.is_full:
            self._omitted_count += 1
        else:
            hint_text = hint() if callable(hint) else hint
            self.problems.append(Problem(field, message, hint_text, line, rule, expected))

    def add_warning(self, field: str, line: int | None, message: str, hint: Hint = None) -> None:
        if len(self.warnings) < MAX_PROBLEMS:
            self.warnings.append(Problem(field, message, hint() if callable(hint) else hint, line))

    def raise_problems(self) -> None:
        self.problems.sort(key=lambda problem: problem.line or 0)
        if self._omitted_count:
            self.problems.append(Problem("", msg("and {more} more problems", more=self._omitted_count), rule="more"))
        if self.problems:
            raise InvalidJob(self.problems)


@dataclass(frozen=True, slots=True)
class FieldKind(Generic[T_co]):
    """The type of a field's value."""

    read: Callable[[FieldValue], T_co]  # raises InvalidValue
    schema: Mapping[str, Any]  # as JSON Schema


@dataclass(frozen=True, slots=True)
class FieldValue:
    """A value with its path."""

    node: DocumentNode
    path: str
    report: ProblemReport

    def read_as_kind(self, kind: FieldKind[T], default: D) -> T | D:
        return self.apply_reader(kind.read, default)

    def apply_reader(self, function: Callable[[FieldValue], T], default: D) -> T | D:
        """Call the function; on InvalidValue, report it and return the default."""
        try:
            return function(self)
        except InvalidValue as wrong:
            self.add_problem(wrong.message, wrong.hint, rule=wrong.rule, expected=wrong.expected)
            return default

    def add_problem(self, message: str, hint: Hint = None, *, rule: str = "", expected: Any = None) -> None:
        self.report.add_problem(self.path, self.node.line, message, hint, rule=rule, expected=expected)

    def add_warning(self, message: str, hint: Hint = None) -> None:
        self.report.add_warning(self.path, self.node.line, message, hint)

    def get_child(self, step: str | int, node: DocumentNode) -> FieldValue:
        return FieldValue(node, join_path(self.path, step), self.report)

    def list_items(self) -> list[FieldValue]:
        if not isinstance(self.node.value, list):
            message = msg("must be a list, not {node}", node=describe_node(self.node))
            raise InvalidValue(message, _build_list_hint(self.node), rule="type", expected="array")
        return [self.get_child(index, node) for index, node in enumerate(self.node.value)]

    def get_entries(self) -> dict[str, FieldValue]:
        if not isinstance(self.node.value, dict):
            message = msg("must be a mapping of names to values, not {node}", node=describe_node(self.node))
            raise InvalidValue(message, _build_mapping_hint(self.node), rule="type", expected="object")
        return {key: self.get_child(key, node) for key, node in self.node.value.items()}


class FieldSpec(NamedTuple):
    """A field of a mapping."""

    kind: FieldKind[Any]
    description: str


class Fields:
    """The fields of one mapping. Keys without a value (`key:`) count as absent."""

    def __init__(self, at: FieldValue) -> None:
        self.at = at
        self._entries = at.get_entries()
        self._known: list[str] = []

    def get_field(self, key: str) -> FieldValue | None:
        self._known.append(key)
        found = self._entries.get(key)
        return None if found is None or found.node.value is None else found

    def has_key(self, key: str) -> bool:
        """Whether the key exists, even without a value."""
        return key in self._entries

    def read_optional(self, key: str, kind: FieldKind[T], default: D) -> T | D:
        found = self.get_field(key)
        return default if found is None else found.read_as_kind(kind, default)

    def read_required(self, key: str, kind: FieldKind[T], default: D) -> T | D:
        found = self.get_field(key)
        if found is not None:
            return found.read_as_kind(kind, default)
        self.report_missing_key(key)
        return default

    def report_missing_key(self, key: str) -> None:
        def build_hint() -> str | None:
            return build_similar_name_hint(
                key, (name for name in self._entries if name not in self._known), format_typo_hint
            )

        path = join_path(self.at.path, key)
        self.at.report.add_problem(
            path, self.at.node.line, msg("is required"), build_hint, rule="required", expected=key
        )

    def read_fields(self, keys: Mapping[str, FieldSpec]) -> dict[str, Any]:
        """Return the existing fields by name; invalid ones are reported and omitted."""
        values = {name: self.read_optional(name, key.kind, _ABSENT) for name, key in keys.items()}
        return {name: value for name, value in values.items() if value is not _ABSENT}

    def report_unknown_keys(self, tolerated: Collection[str] = ()) -> None:
        known = set(self._known)
        for name, at in self._entries.items():
            if name not in known and name not in tolerated:
                advice = partial(self._build_unknown_key_hint, name)
                at.add_problem(
                    msg("is not a known field"), advice, rule="additionalProperties", expected=clip_text(name, 255)
                )

    def _build_unknown_key_hint(self, name: str) -> str:
        return build_similar_name_hint(name, self._known) or format_known_names(dict.fromkeys(self._known))


_ABSENT = object()


def format_typo_hint(word: str) -> str:
    return msg("Did you misspell it as {value}?", value=repr(word))


def _format_guess_hint(word: str) -> str:
    return msg("Did you mean {value}?", value=repr(word))


def build_similar_name_hint(
    name: str, known: Iterable[str], ask: Callable[[str], str] = _format_guess_hint
) -> str | None:
    if len(name) > MAX_GUESS_LENGTH:
        return None
    short = (word for word in known if len(word) <= MAX_GUESS_LENGTH)
    by_folded = {_fold_name(word): word for word in islice(short, MAX_GUESSES)}
    near = difflib.get_close_matches(_fold_name(name), by_folded, n=1, cutoff=0.7)
    return ask(by_folded[near[0]]) if near else None


def build_name_hint(name: str, known: Collection[str]) -> str | None:
    """Return a hint with the most similar name, else with all names."""
    return build_similar_name_hint(name, known) or (format_known_names(known) if known else None)


def format_known_names(names: Iterable[str]) -> str:
    listed = [clip_text(name, 40) for name in islice(names, 41)]
    return msg(
        "Valid names: {listed}{ending}", listed=", ".join(listed[:40]), ending=", …" if len(listed) > 40 else "."
    )


def _fold_name(word: str) -> str:
    return word.lower().replace("_", "").replace("-", "")


def _build_list_hint(node: DocumentNode) -> str | None:
    """Return a hint for a single value in place of a list."""
    word = _get_one_line_text(node)
    return msg('Write it as a list: ["{value}"].', value=clip_text(word)) if word else None


def _build_mapping_hint(node: DocumentNode) -> str | None:
    """Return a hint for A=1, alone or in a list, as other tools write it."""
    first = node.value[0] if isinstance(node.value, list) and node.value else node
    name, equals, _ = (_get_one_line_text(first) or "").partition("=")
    return (
        msg("Write {name}: VALUE instead of {name}=VALUE, each on its own line.", name=clip_text(name))
        if name and equals
        else None
    )


def _get_one_line_text(node: DocumentNode) -> str | None:
    return node.value if isinstance(node.value, str) and not set(node.value) & set('\n"\\') else node.source_text


def describe_node(node: DocumentNode) -> str:
    value = node.value
    if isinstance(value, dict):
        return msg("a mapping")
    if isinstance(value, list):
        return msg("a list")
    if value is None:
        return "empty"
    if isinstance(value, bool):
        return str(value).lower()
    return repr(clip_text(value)) if isinstance(value, str) else clip_text(str(value))
