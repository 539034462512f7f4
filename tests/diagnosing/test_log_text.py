"""How lines are read before any rule is tried: those for machines, what stands before each, whose code it is."""

from __future__ import annotations

import json

import pytest

from holdfast.core.job import GIB
from holdfast.core.verdicts import Confidence, EvidenceKind, Fault
from holdfast.diagnosis.case import LogExcerpt
from holdfast.diagnosis.line_prefixes import strip_log_prefix

from .cases import ended, of_log, verdict

STEPS = "".join(json.dumps({"level": "info", "msg": f"step {number}", "error": None}) + "\n" for number in range(300))
TRACE = """Traceback (most recent call last):
  File "/code/train.py", line 5, in main
    cfg["lr"]
KeyError: 'lr'
"""


@pytest.mark.parametrize(
    ("line", "fault", "title"),
    [
        (
            {"level": "error", "msg": "cannot load", "err": "[Errno 2] No such file or directory: '/data/x.csv'"},
            Fault.MISSING_FILE,
            "File not found: [Errno 2] No such file or directory: '/data/x.csv'",
        ),
        ({"levelname": "ERROR", "message": "run failed", "exc_info": TRACE}, Fault.PYTHON_EXCEPTION, "KeyError: 'lr'"),
        ({"severity": "FATAL", "message": "flux is low"}, Fault.EXCEPTION, "flux is low"),
        (
            {"level": 50, "msg": "x", "err": {"type": "Error", "message": "connect ECONNREFUSED ::1:1"}},
            "connection",
            "",
        ),
    ],
)
def test_what_an_error_in_json_says_is_read_like_plain_lines(line: dict[str, object], fault: Fault, title: str) -> None:
    log = STEPS + json.dumps(line) + "\n"
    found = of_log(log)
    assert found.fault == fault
    assert found.title.startswith(title)
    quoted = next(each for each in found.evidence if each.kind is EvidenceKind.LOG)
    assert quoted.offset == len(STEPS)


def test_errors_in_json_that_are_none_stay_as_they_are() -> None:
    harmless = {"level": "warning", "msg": "trying again", "err": "cat: x: No such file or directory"}
    assert of_log(json.dumps(harmless) + "\n" + STEPS, 3).fault is Fault.UNKNOWN
    assert of_log('{"level": "error", "msg": \n{"error": {"error": {"error": {}}}}\n', 3).fault is Fault.UNKNOWN


def test_pairs_of_keys_and_values_are_read() -> None:
    log = 'ts=2024-01-01T10:00:00Z level=error msg="no \\"go\\"" err="open /etc/a.yml: no such file or directory"'
    found = of_log(f"level=info msg=hello\n{log}\n")
    assert found.fault is Fault.MISSING_FILE
    assert found.evidence[0].offset == len("level=info msg=hello\n")


@pytest.mark.parametrize(
    "before",
    [
        "2024-01-01 10:00:00,123 - train.loop - ERROR - ", "2024-01-01T10:00:00.000Z ERROR ", "[rank0]: ",
        "[1,0]<stderr>:",
        "ERROR:root:", "[2024-01-01 10:00:00] [error] ", "E0101 10:00:00.000000 7 main.cc:3] ", "Jan  1 10:00:00 ",
        "2024-01-01 10:00:00.123 | ERROR    | app.run:main:7 - ", "(worker pid=7, ip=10.0.0.1) ", "worker-1  | ",
        "E       ",
    ],
)  # fmt: skip
def test_titles_begin_with_what_the_program_said(before: str) -> None:
    said = "cp: cannot stat 'model.pt': No such file or directory"
    assert strip_log_prefix(before + said) == said
    assert of_log(f"start\n{before}{said}\n").title == f"File not found: {said}"


@pytest.mark.parametrize(
    "line", ["ERROR ", "torch.cuda.OutOfMemoryError: x", "error: no", "train.py: error: x", "12: x"]
)
def test_what_is_no_prefix_stays(line: str) -> None:
    assert strip_log_prefix(line) == line


def _frame(*files: str) -> str:
    frames = "".join(f'  File "{file}", line {number}, in f\n    f()\n' for number, file in enumerate(files, 1))
    found = of_log(f"Traceback (most recent call last):\n{frames}ValueError: x\n")
    assert found.frame is not None
    return found.frame.file


def test_a_copy_of_a_library_is_not_the_users_own_code() -> None:
    assert _frame("/home/u/p/train.py", "/home/u/p/lib/thing/__init__.py") == "/home/u/p/train.py"
    assert _frame("/home/u/p/train.py", "/home/u/p/model.py", "/home/u/p/third_party/x.py") == "/home/u/p/model.py"
    assert _frame("/home/u/lib/train.py", "/home/u/lib/model.py") == "/home/u/lib/model.py"
    assert _frame("/home/u/p/train.py", "/home/u/common/model.py") == "/home/u/common/model.py"


def test_an_exception_that_other_output_pushed_out_is_found_among_the_errors() -> None:
    chatter = b"step done, all is well\n" * 4000
    task = ended("", 1, peak=GIB)
    cut = type(task)(
        task=task.task,
        role=task.role,
        exit=task.exit,
        log=(LogExcerpt(0, b"start\n"), LogExcerpt(500_000, chatter)),
        errors=(LogExcerpt(0, b"a warning\n" + TRACE.encode()),),
    )
    found = verdict(cut)
    assert (found.title, found.confidence) == ("KeyError: 'lr'", Confidence.LIKELY)
    assert next(each for each in found.evidence if each.kind is EvidenceKind.LOG).offset is None


def test_tests_that_failed_are_named() -> None:
    log = (
        "E       assert -1 == 3\n\ntests/test_a.py:5: AssertionError\n=== short test summary info ===\n"
        "FAILED tests/test_a.py::test_add - assert -1 == 3\n=== 1 failed, 1 passed in 0.15s ===\n"
    )
    found = of_log(log)
    assert found.title == "Tests failed: tests/test_a.py::test_add - assert -1 == 3"
    assert "FAILED tests/test_a.py::test_add" in found.evidence[0].text


def test_a_single_other_task_is_told_of_in_the_singular() -> None:
    found = verdict(ended(TRACE, index=0), ended(TRACE, index=1))
    assert "One other task failed in the same way." in found.explanation
