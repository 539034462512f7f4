"""Which rules fit which lines."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from .log_text import LogText
from .prefixes import without_prefix
from .rulebook import Rule

NEAR = 200  # characters between literals of a line that are seen together
LAST = 40  # lines that hold a literal and are tried, from the end
FIRST = 8  # and from the beginning
BEFORE, AFTER = 300, 500  # characters around a literal that a pattern sees
MAX_PART_LENGTH = 200  # characters of what a pattern found


@dataclass(frozen=True, slots=True)
class Hit:
    rule: Rule
    line: int
    parts: Mapping[str, str]  # what the named parts held


def find_hits(text: LogText, rules: Sequence[Rule], code: int | None) -> list[Hit]:
    """In the order of their lines; of several on one line, the one that counts most first."""
    found: dict[tuple[str, int], Hit] = {}
    for rule in rules:
        if rule.codes and code not in rule.codes:
            continue
        if text.is_time_up():
            break
        for line, hit in _of_rule(text, rule):
            found.setdefault((rule.id, line), hit)
    return sorted(found.values(), key=lambda hit: (hit.line, -hit.rule.priority))


def _of_rule(text: LogText, rule: Rule) -> Iterator[tuple[int, Hit]]:
    """Each line is tried once; a long one once for each of its parts that hold a literal."""
    least = len(text) - rule.last if rule.last else 0
    tried: dict[int, list[int]] = {}
    for literal in rule.literals:
        if not text.may_hold(literal) or literal not in text.lower:
            continue
        for place in (*text.places(literal, LAST), *text.first_places(literal, FIRST)):
            line = text.number_at(place)
            seen = tried.setdefault(line, [])
            if line < least or any(abs(place - other) < NEAR for other in seen):
                continue
            if text.is_time_up():
                return
            seen.append(place)
            parts = _fit(rule, text, line, place)
            if parts is not None:
                yield line, Hit(rule, line, parts)


def _fit(rule: Rule, text: LogText, number: int, place: int) -> dict[str, str] | None:
    line = text.line(number)
    at = text.column(number, place)
    said = without_prefix(line)
    cut = len(line) - len(said)
    for pattern in rule.patterns:
        match = pattern.search(line, max(at - BEFORE, 0), at + AFTER)
        if match is None and cut:
            match = pattern.search(said, max(at - cut - BEFORE, 0), max(at - cut, 0) + AFTER)
        if match is not None:
            return {name: held.strip()[:MAX_PART_LENGTH] for name, held in match.groupdict(default="").items()}
    return None
