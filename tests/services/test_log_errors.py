"""Which lines are taken for the first error of a log, and which only speak of errors."""

from __future__ import annotations

import re

import pytest

from holdfast.services.logs.first_error import ERROR_LITERALS, FIRST_ERROR_PATTERN
from holdfast.services.logs.search import MAX_QUERY_LENGTH

PATTERN = re.compile(FIRST_ERROR_PATTERN)

ERRORS = """
Traceback (most recent call last):
ValueError: shapes (3,4) and (5,6) not aligned
torch.cuda.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB
RuntimeError: CUDA error: device-side assert triggered
java.lang.NullPointerException: oops
KeyError: 'lr'
main.c:12:5: error: expected ';' before 'return'
error[E0382]: borrow of moved value: `x`
fatal: not a git repository
fatal error: foo.h: No such file or directory
2026-01-01 12:00:00 ERROR could not connect to server
2026-01-01 12:00:00,123 [ERROR] boom
ERROR: Could not find a version that satisfies the requirement nope
npm ERR! code ENOENT
npm error code E404
CUDA error: out of memory
Killed
/bin/sh: line 1: 42 Killed                  python train.py
Segmentation fault (core dumped)
bash: nvcc: command not found
python: can't open file 'x.py': [Errno 2] No such file or directory
OSError: [Errno 28] No space left on device
panic: runtime error: index out of range
thread 'main' panicked at src/main.rs:2:5
a.out: test.c:4: main: Assertion `x > 0' failed.
CRITICAL worker lost
error: no module named foo
make: *** [Makefile:2: all] Error: something
process exited with code 137
"""

NOT_ERRORS = """
0 errors, 12 warnings
Found 0 error(s)
mean squared error: 0.0213
error: 0.12
epoch 3 train error: 12.5% val error: 13.0%
no error
Error rate 0.1
error_rate=0.03
errors: 0
error: none
ErrorRate: 0.5
handled errors gracefully
--error-on-warning
skilled workers
loading terror.py
see docs/errors.md
process exited with code 0
exit status 0
import pandas.errors
log level: error
"""


@pytest.mark.parametrize("line", ERRORS.strip().splitlines())
def test_an_error_is_seen(line: str) -> None:
    assert PATTERN.search(line)
    assert any(sign in line.encode() for sign in ERROR_LITERALS)


@pytest.mark.parametrize("line", NOT_ERRORS.strip().splitlines())
def test_a_line_that_speaks_of_errors_is_none(line: str) -> None:
    assert not PATTERN.search(line)


def test_the_pattern_can_be_searched_for() -> None:
    assert len(FIRST_ERROR_PATTERN) <= MAX_QUERY_LENGTH
