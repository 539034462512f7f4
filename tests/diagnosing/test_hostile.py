"""Logs are written by anyone: whatever they hold, they are judged, and in time that grows with their size alone."""

from __future__ import annotations

import random
import re
from dataclasses import replace
from itertools import count
from typing import cast

import pytest

from holdfast.core.verdicts import Confidence, Fault
from holdfast.diagnosis.case import LogExcerpt
from holdfast.diagnosis.job_diagnosis import diagnose_job
from holdfast.diagnosis.log_text import LogText
from holdfast.diagnosis.rule_hits import MIN_LITERAL_DISTANCE, list_rule_hits
from holdfast.diagnosis.rulebook import expand_pattern, load_rules

from .cases import case_of, ended, of_log, verdict

SIZE = 1_000_000
RULES = load_rules()
LITERALS = [literal.decode() for rule in RULES for literal in rule.literals]

pytestmark = pytest.mark.timeout(120)  # what takes longer grows faster than its input


def _mixed() -> str:
    chance = random.Random(7)
    words = LITERALS + [sample.text for rule in RULES for sample in rule.positive]
    return "".join(chance.choice(words) + chance.choice(("\n", " ", ": ", "'", "\r")) for _ in range(SIZE // 30))


def _chunks(words: list[str]) -> list[str]:
    """Them all, some in each."""
    return ["!".join(words[start : start + 14]) for start in range(0, len(words), 14)]


HOSTILE = {
    "one long line": "error: " * (SIZE // 7),
    "line breaks": "\n" * SIZE,
    "returns": "50%|=====| \r" * (SIZE // 12),
    "tracebacks": "Traceback (most recent call last):\n" * (SIZE // 35),
    "frames": "Traceback (most recent call last):\n" + '  File "a.py", line 1, in f\n    f()\n' * (SIZE // 36),
    "chains": (
        'Traceback (most recent call last):\n  File "a.py", line 1, in f\n    f()\nKeyError: 1\n\n'
        "During handling of the above exception, another exception occurred:\n\n"
    )
    * (SIZE // 150),
    "prefixes": "".join(f"[rank{number}]: Traceback (most recent call last):\n" for number in range(SIZE // 45)),
    "escapes": "\x1b[31m" * (SIZE // 5),
    "half escapes": "\x1b[" * (SIZE // 2),
    "colons": ": " * (SIZE // 2),
    "quotes": "'" * SIZE,
    "missing files": "cat: x: No such file or directory\n" * (SIZE // 34),
    "every literal": ("\n".join(LITERALS) + "\n") * (SIZE // sum(map(len, LITERALS))),
    "every literal in one line": " ".join(LITERALS) * (SIZE // sum(map(len, LITERALS))),
    "every sample": _mixed(),
    "code without an end": 'Traceback (most recent call last):\n  File "a", line 1\n' * 40 + "    \n" * (SIZE // 5),
    "paths": "\n".join("1" * 280 + chunk + "/a" * 170 for chunk in _chunks(LITERALS) for _ in range(49))[:SIZE],
}


@pytest.mark.release_after(5)
@pytest.mark.parametrize("name", HOSTILE)
def test_any_text_is_judged_in_bounded_time(name: str) -> None:
    found = of_log(HOSTILE[name])
    assert len(found.title) <= 250
    assert len(found.evidence) <= 6
    assert sum(len(each.text) for each in found.evidence) < 20_000


class _Counting:
    """A pattern that fits nowhere, and counts how often it was tried."""

    def __init__(self) -> None:
        self.tries = 0

    def search(self, _line: str, _start: int, _end: int) -> None:
        self.tries += 1


def test_a_rule_tries_a_line_once_however_many_of_its_literals_it_holds() -> None:
    rule = max(RULES, key=lambda rule: len(rule.literals))
    line = " ".join(literal.decode() for literal in rule.literals)
    pattern = _Counting()
    counted = replace(rule, patterns=(cast("re.Pattern[str]", pattern),), codes=(), last=None)
    list_rule_hits(LogText.from_excerpts((LogExcerpt(0, (line + "\n").encode() * 10),)), [counted], 1)
    assert 10 <= pattern.tries <= 10 * (1 + len(line) // MIN_LITERAL_DISTANCE)


def test_a_path_is_looked_for_only_where_one_may_begin() -> None:
    found = re.search(expand_pattern("<file:path>: Read-only"), "cp: /data/a/b: Read-only")
    assert found is not None
    assert found["file"] == "/data/a/b"
    assert re.compile(expand_pattern("<file:path>: Read-only")).match("/data/a/b: Read-only", 3) is None


def test_when_the_time_is_up_what_was_found_counts_and_is_never_certain() -> None:
    trace = 'Traceback (most recent call last):\n  File "/w/a.py", line 3, in f\n    f()\nKeyError: 1\n'
    sure = verdict(ended(trace))
    assert (sure.fault, sure.confidence) == (Fault.PYTHON_EXCEPTION, Confidence.CERTAIN)
    asked = count()
    late = diagnose_job(replace(case_of(ended(trace)), time_up=lambda: next(asked) > 0))
    assert late is not None
    assert (late.title, late.confidence) == (sure.title, Confidence.LIKELY)
    never = diagnose_job(replace(case_of(ended(trace)), time_up=lambda: True))
    assert never is not None
    assert (never.fault, never.confidence) == (Fault.UNKNOWN, Confidence.POSSIBLE)


def test_bytes_that_are_no_text_are_judged() -> None:
    task = ended("")
    noise = bytes(random.Random(3).randrange(256) for _ in range(100_000))
    log = (type(task.log[0])(0, noise + b"\ncat: x: No such file or directory\n"),)
    found = verdict(type(task)(task=task.task, role=task.role, exit=task.exit, log=log))
    assert found.fault is Fault.MISSING_FILE
    assert "\0" not in found.title


def test_what_a_log_says_is_never_read_as_a_template() -> None:
    found = of_log("cat: {memory_limit}{task}: No such file or directory\n")
    assert "{memory_limit}{task}" in found.title
