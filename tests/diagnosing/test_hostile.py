"""Logs are written by anyone: whatever they hold, they are judged, and in time that grows with their size alone."""

from __future__ import annotations

import random

import pytest

from holdfast.core.verdicts import Fault
from holdfast.diagnosis.rulebook import load_rules

from .cases import ended, of_log, verdict

SIZE = 1_000_000
RULES = load_rules()
LITERALS = [literal.decode() for rule in RULES for literal in rule.literals]

pytestmark = pytest.mark.timeout(120)  # what takes longer grows faster than its input


def _mixed() -> str:
    chance = random.Random(7)
    words = LITERALS + [sample.text for rule in RULES for sample in rule.positive]
    return "".join(chance.choice(words) + chance.choice(("\n", " ", ": ", "'", "\r")) for _ in range(SIZE // 30))


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
}


@pytest.mark.parametrize("name", HOSTILE)
def test_any_text_is_judged_in_bounded_time(name: str) -> None:
    found = of_log(HOSTILE[name])
    assert len(found.title) <= 250
    assert len(found.evidence) <= 6
    assert sum(len(each.text) for each in found.evidence) < 20_000


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
