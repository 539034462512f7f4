"""Every rule finds its own samples and no other rule takes them from it; every pattern takes time in proportion."""

from __future__ import annotations

import re
from collections.abc import Iterator
from re import _constants as signs  # type: ignore[attr-defined]
from re import _parser as parser  # type: ignore[attr-defined]
from typing import Any

import pytest

from holdfast.diagnosis.case import LogExcerpt
from holdfast.diagnosis.log_text import LogText
from holdfast.diagnosis.rule_hits import list_rule_hits
from holdfast.diagnosis.rulebook import LogSample, Rule, load_rules
from holdfast.diagnosis.suspects import find_suspect
from holdfast.diagnosis.verdict_builder import REMEDY_RESOLVERS
from holdfast.diagnosis.verdict_texts import REMEDIES_BY_FORMAT

RULES = load_rules()
POSITIVE = [(rule, sample) for rule in RULES for sample in rule.positive]
NEGATIVE = [(rule, sample) for rule in RULES for sample in rule.negative]
MAX_REPEATS = 300  # of anything in a pattern
MAX_NESTED = 12  # of a group that itself repeats something


def _name(value: object) -> str | None:
    return value.id if isinstance(value, Rule) else value.text[:30] if isinstance(value, LogSample) else None


HEADER = 'Traceback (most recent call last):\n  File "/code/train.py", line 3, in <module>\n    main()\n'


def _text(rule: Rule, sample: LogSample) -> LogText:
    """Samples of exceptions stand below a traceback."""
    header = HEADER if rule.exception and 'File "' not in sample.text else ""
    return LogText.from_excerpts([LogExcerpt(0, f"starting\n{header}{sample.text}\n".encode())])


def test_rules_are_well_formed() -> None:
    ids = [rule.id for rule in RULES]
    assert len(ids) == len(set(ids))
    for rule in RULES:
        assert rule.positive, rule.id
        assert rule.negative, rule.id
        names = {name for pattern in rule.patterns for name in pattern.groupindex}
        known = {"error", "code", "job", "task", "role", "image", "gpus", "memory_limit", "exception", "message"}
        for text in (rule.title, rule.explanation, *rule.remedies):
            assert set(re.findall(r"\{([a-z_0-9]+)\}", text)) <= names | known, (rule.id, text)
        assert all(
            remedy[1:] in {*REMEDIES_BY_FORMAT, *REMEDY_RESOLVERS} for remedy in rule.remedies if remedy[0] == "@"
        ), rule.id
        assert all(len(literal) >= 2 for literal in rule.literals), rule.id


@pytest.mark.parametrize(("rule", "sample"), POSITIVE, ids=_name)
def test_the_right_rule_wins(rule: Rule, sample: LogSample) -> None:
    found = find_suspect(_text(rule, sample), sample.code)
    assert found is not None
    assert (found.rule.id if found.rule else None) == rule.id


@pytest.mark.parametrize(("rule", "sample"), NEGATIVE, ids=_name)
def test_a_rule_leaves_other_lines_alone(rule: Rule, sample: LogSample) -> None:
    found = find_suspect(_text(rule, sample), sample.code)
    assert found is None or found.rule is None or found.rule.id != rule.id


@pytest.mark.parametrize(("rule", "sample"), POSITIVE, ids=_name)
def test_a_rule_is_tried_on_its_own_samples(rule: Rule, sample: LogSample) -> None:
    """What its literals keep from being tried would be taken for no fit."""
    assert list_rule_hits(_text(rule, sample), [rule], sample.code)


def test_every_repeat_has_a_bound() -> None:
    for rule in RULES:
        for pattern in rule.patterns:
            for least, most, nested in _repeats(parser.parse(pattern.pattern), 0):
                assert most <= MAX_REPEATS, (rule.id, pattern.pattern)
                assert not nested or most <= MAX_NESTED, (rule.id, pattern.pattern)
                assert least <= most


def _repeats(tree: Any, depth: int) -> Iterator[tuple[int, int, bool]]:
    """Each repeat in a pattern: least, most, and whether it holds another."""
    for op, value in tree:
        if op in (signs.MAX_REPEAT, signs.MIN_REPEAT, signs.POSSESSIVE_REPEAT):
            least, most, inner = value
            held = list(_repeats(inner, depth + 1))
            yield least, most, any(each[1] > 1 for each in held) and most > 1
            yield from held
        elif op is signs.SUBPATTERN:
            yield from _repeats(value[-1], depth)
        elif op is signs.BRANCH:
            for branch in value[1]:
                yield from _repeats(branch, depth)
        elif op in (signs.ASSERT, signs.ASSERT_NOT):
            yield from _repeats(value[1], depth)
