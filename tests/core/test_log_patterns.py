"""Signs in logs: each is found where it should be, is not where it should not, and takes time in proportion."""

from __future__ import annotations

import re
from collections.abc import Iterator
from re import _constants as words  # type: ignore[attr-defined]
from re import _parser as parser  # type: ignore[attr-defined]
from typing import Any

import pytest

from holdfast.core.exits.exit import Cause
from holdfast.core.exits.log_patterns import LOG_PATTERNS, REQUIRED_EXIT_CODES
from holdfast.core.exits.table import find_cause

FOUND = {
    Cause.SSH_BARRIER: [
        "[2026-01-01T00:00:00+0000] [openpai-runtime] [ERROR] SSH barrier reaches max retry count: ps-0 did not answer",
        "[] [openpai-runtime] [ERROR] The SSH barrier can never be passed: it needs openssh-server",
    ],
    Cause.PLUGIN_FAILED: [
        "[] [openpai-runtime] [ERROR] The runtime plugin git failed with code 128.",
        "[] [openpai-runtime] [ERROR] The runtime plugin cmd cannot run: its parameter preCommands must be a list.",
    ],
    Cause.COMMAND_NOT_FOUND: ["bash: line 1: trian: command not found\n", "sh: 1: trian: not found\n"],
    Cause.TENSORFLOW_OOM: [
        "tensorflow.python.framework.errors_impl.ResourceExhaustedError: OOM when allocating tensor with shape[8]",
        "W allocator.cc] OOM when allocating tensor",
        "W bfc_allocator.cc:211] Allocator (GPU_0_bfc) ran out of memory trying to allocate 2.1GiB.",
    ],
    Cause.MPI_SEGFAULT: ["[node:1] Signal code: Address not mapped (1)"],
    Cause.GPU_MEMORY_ERROR: ["failed call to cuInit: CUDA_ERROR_ECC_UNCORRECTABLE", "uncorrectable ECC error seen"],
    Cause.CUDA_MISMATCH: [
        "Error: CUDA driver version is insufficient for CUDA runtime version",
        "RuntimeError: The NVIDIA driver on your system is too old (found version 9010).",
    ],
    Cause.CUDNN_MISMATCH: [
        "RuntimeError: dropout state descriptors requires cudnn 7 or later",
        "RuntimeError: dropout supported only in cuDNN v5.1 and above",
        "E Loaded runtime CuDNN library: 7.1.2 but source was compiled with: 7.6.0.",
    ],
    Cause.CUDA_OOM: [
        "RuntimeError: cuda runtime error (2) : out of memory at THCStorage.cu:58",
        "RuntimeError: CUDA out of memory. Tried to allocate 20.00 MiB",
        "failed to allocate 4G: CUDA_ERROR_OUT_OF_MEMORY: out of memory",
    ],
    Cause.BAD_ARGUMENT: [
        "tar: unrecognized option '--x'",
        "main.py: error: unrecognized arguments: --bs",
        "unknown option",
        "train.lua:9: bad argument #2 to 'view' (invalid type)",
    ],
    Cause.BAD_DATA: [
        "UnicodeDecodeError: 'utf-8' codec can't decode byte 0xff",
        "Traceback:\nEOFError: Ran out of input\n",
        "DataLossError: not an sstable; perhaps your file is in a different file format and you need another reader",
        "cp: error reading 'x': Input/output error",
    ],
    Cause.BAD_SAVE_PATH: [
        "ValueError: Restore called with invalid save path: 'model'",
        "ValueError: The passed save_path is not a valid checkpoint: model",
    ],
    Cause.SYNTAX_ERROR: [
        "SyntaxError: invalid syntax",
        "IndentationError: unexpected indent",
        "AttributeError: 'NoneType' object has no attribute 'x'",
        "NameError: name 'x' is not defined",
        "_pickle.UnpicklingError: invalid load key",
        "InvalidArgumentError: Assign requires shapes of both tensors to match. lhs shape= [2] rhs shape= [3]",
    ],
    Cause.IMPORT_ERROR: ["ImportError: cannot import name 'x' from 'os'"],
    Cause.INDEX_ERROR: ["IndexError: list index out of range", "IndexError: index 5 is out of bounds for axis 0"],
    Cause.SEGFAULT: ["run.sh: line 3: 77 Segmentation fault (core dumped) ./a"],
    Cause.CORE_DUMPED: ["run.sh: line 3: 77 Aborted (core dumped) ./a"],
    Cause.UNSET_VARIABLE: [
        "/usr/local/pai/runtime.d/user.sh: line 3: DATA_DIR: unbound variable",
        "sh: 1: DATA_DIR: parameter not set",
    ],
}
NOT_FOUND = {
    Cause.SSH_BARRIER: "[] [openpai-runtime] [INFO] SSH barrier passed: all other tasks respond.",
    Cause.PLUGIN_FAILED: "[] [openpai-runtime] [WARN] The runtime plugin git failed with code 128, which is ignored.",
    Cause.COMMAND_NOT_FOUND: "the page was not found, trying again",
    Cause.TENSORFLOW_OOM: "no OOM seen; tensors allocated",
    Cause.MPI_SEGFAULT: "Signal code: none",
    Cause.GPU_MEMORY_ERROR: "ECC errors: 0 corrected",
    Cause.CUDA_MISMATCH: "CUDA driver version 12.4, CUDA runtime version 12.1",
    Cause.CUDNN_MISMATCH: "dropout 0.5; cudnn 8.9 found",
    Cause.CUDA_OOM: "cuda runtime error 2 is told in brackets",
    Cause.BAD_ARGUMENT: "error: the option is unknown",
    Cause.BAD_DATA: "Traceback:\n  File 'connection.py', in _recv\nEOFError\n",
    Cause.BAD_SAVE_PATH: "saved to the path model",
    Cause.SYNTAX_ERROR: "0 times SyntaxError or MyNameError: fine",
    Cause.IMPORT_ERROR: "ModuleNotFoundError: No module named 'x'",
    Cause.INDEX_ERROR: "IndexError: no such key",
    Cause.SEGFAULT: "a fault in segmentation of images",
    Cause.CORE_DUMPED: "the core was dumped",
    Cause.UNSET_VARIABLE: "warning: unbound variable x in the model: parameter not set to a number",
}
SAMPLES = [(cause, text) for cause, texts in FOUND.items() for text in texts]


def code_for(cause: Cause) -> int:
    return REQUIRED_EXIT_CODES.get(cause, 1)


def test_every_pattern_has_samples() -> None:
    assert [cause for cause, _ in LOG_PATTERNS] == list(FOUND) == list(NOT_FOUND)


@pytest.mark.parametrize(("cause", "text"), SAMPLES, ids=[f"{cause}-{n}" for n, (cause, _) in enumerate(SAMPLES)])
def test_a_sign_is_found_in_any_case_among_other_lines(cause: Cause, text: str) -> None:
    for said in (text, text.upper(), f"epoch 1\r\n{text}\nbye\n", f"\0\ufffd{text}"):
        assert find_cause(said, code_for(cause)) == cause


@pytest.mark.parametrize(("cause", "text"), list(NOT_FOUND.items()))
def test_words_that_only_look_like_a_sign_are_not_blamed(cause: Cause, text: str) -> None:
    assert find_cause(text, code_for(cause)) == ""


@pytest.mark.parametrize(
    ("before", "code", "cause"),
    [("", 7, ""), ("0-before.sh: line 1: trian: command not found", 127, Cause.COMMAND_NOT_FOUND)],
)
def test_commands_of_a_plugin_are_told_by_what_they_said(before: str, code: int, cause: str) -> None:
    said = f"{before}\n[] [openpai-runtime] [ERROR] The runtime plugin cmd failed with code {code}.\n"
    assert find_cause(said, code) == cause


@pytest.mark.parametrize("cause", REQUIRED_EXIT_CODES)
def test_some_signs_count_only_with_their_exit_code(cause: Cause) -> None:
    assert find_cause(FOUND[cause][0], 1) == ""


def test_the_first_in_the_table_wins_not_the_first_in_the_log() -> None:
    assert find_cause("ImportError: no\nCUDA out of memory\n", 1) == Cause.CUDA_OOM


@pytest.mark.parametrize(("cause", "pattern"), LOG_PATTERNS)
def test_patterns_mean_the_same_in_lower_case(cause: Cause, pattern: str) -> None:
    assert not re.search(r"\\[A-Z]", pattern)


def _repeats(pattern: Any) -> Iterator[tuple[int, Any]]:
    """Every repeat within a parsed pattern: its bound, and what it repeats."""
    for op, value in pattern:
        if op in (words.MAX_REPEAT, words.MIN_REPEAT, words.POSSESSIVE_REPEAT):
            yield value[1], value[2]
            yield from _repeats(value[2])
        elif op is words.SUBPATTERN:
            yield from _repeats(value[3])
        elif op is words.ASSERT_NOT:
            yield from _repeats(value[1])
        elif op is words.BRANCH:
            for branch in value[1]:
                yield from _repeats(branch)
        else:
            assert op in (words.LITERAL, words.NOT_LITERAL, words.IN, words.AT), f"think about {op} first"


@pytest.mark.parametrize(("cause", "pattern"), LOG_PATTERNS)
def test_no_pattern_can_be_made_slow(cause: Cause, pattern: str) -> None:
    """Every repeat is bounded and repeats one character: the work for each place in a log has a bound."""
    for bound, inner in _repeats(parser.parse(pattern.lower())):
        assert bound <= 100
        assert len(inner) == 1
        assert not list(_repeats(inner))
