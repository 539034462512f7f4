"""Matches of rules in the lines of a log."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from .line_prefixes import strip_log_prefix
from .log_text import LogText
from .rulebook import Rule

MIN_LITERAL_DISTANCE = 200  # characters between literals of a line; nearer ones are tried once
MAX_LAST_LINES = 40  # lines with a literal that are tried, from the end
MAX_FIRST_LINES = 8  # and from the beginning
CONTEXT_BEFORE_LENGTH, CONTEXT_AFTER_LENGTH = 300, 500  # characters around a literal that are searched
MAX_PART_LENGTH = 200  # characters of a named part


@dataclass(frozen=True, slots=True)
class RuleHit:
    rule: Rule
    line: int
    parts: Mapping[str, str]  # values of the named parts


def list_rule_hits(text: LogText, rules: Sequence[Rule], code: int | None) -> list[RuleHit]:
    """Return all hits in the order of their lines; on one line, the highest priority first."""
    found: dict[tuple[str, int], RuleHit] = {}
    for rule in rules:
        if rule.codes and code not in rule.codes:
            continue
        if text.is_time_up():
            break
        for line, hit in _iter_rule_hits(text, rule):
            found.setdefault((rule.id, line), hit)
    return sorted(found.values(), key=lambda hit: (hit.line, -hit.rule.priority))


def _iter_rule_hits(text: LogText, rule: Rule) -> Iterator[tuple[int, RuleHit]]:
    """Return the hits of one rule. A line is tried once; a long one once near each of its literals."""
    least = len(text) - rule.last if rule.last else 0
    tried: dict[int, list[int]] = {}
    for literal in rule.literals:
        if not text.can_contain(literal) or literal not in text.lower:
            continue
        for place in (
            *text.iter_last_positions(literal, MAX_LAST_LINES),
            *text.iter_first_positions(literal, MAX_FIRST_LINES),
        ):
            line = text.find_line_number(place)
            seen = tried.setdefault(line, [])
            if line < least or any(abs(place - other) < MIN_LITERAL_DISTANCE for other in seen):
                continue
            if text.is_time_up():
                return
            seen.append(place)
            parts = _match_rule(rule, text, line, place)
            if parts is not None:
                yield line, RuleHit(rule, line, parts)


def _match_rule(rule: Rule, text: LogText, number: int, place: int) -> dict[str, str] | None:
    line = text.get_line(number)
    at = text.find_column(number, place)
    stripped = strip_log_prefix(line)
    cut = len(line) - len(stripped)
    for pattern in rule.patterns:
        match = pattern.search(line, max(at - CONTEXT_BEFORE_LENGTH, 0), at + CONTEXT_AFTER_LENGTH)
        if match is None and cut:
            match = pattern.search(
                stripped, max(at - cut - CONTEXT_BEFORE_LENGTH, 0), max(at - cut, 0) + CONTEXT_AFTER_LENGTH
            )
        if match is not None:
            return {name: held.strip()[:MAX_PART_LENGTH] for name, held in match.groupdict(default="").items()}
    return None
