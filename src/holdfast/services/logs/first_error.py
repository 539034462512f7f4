"""The pattern that finds the first error of a log.

Searched line by line (`matching`). It prefers missing an unusual error to matching a line
that only mentions errors, such as "0 errors", "error rate", "mean squared error: 0.02", "no error".

Every part starts with plain letters before any look-behind, so that lines without them are skipped quickly, and
pieces of a log without them are not split into lines.
"""

from __future__ import annotations

import re

# "error:" must be followed by a text: a number is a measurement.
_MESSAGE_SUFFIX_PATTERN = r":(?!\s*(?:[-+]?[\d.]|[Nn]one\b|null|$))"
_WORD_START_PATTERN = r"(?<![\w.=-].{5})"  # a five-letter word starts here
_UPPERCASE_SUFFIX_PATTERN = rf"{_WORD_START_PATTERN}(?:\]|!|{_MESSAGE_SUFFIX_PATTERN}|\s+[\[(a-zA-Z/])"

_ERROR_PATTERNS = (
    r"Traceback \(most recent",
    # ValueError: …, torch.cuda.OutOfMemoryError: …, Error: …, error[E0382]: …
    rf"Error(?:(?<=\wError)(?:{_MESSAGE_SUFFIX_PATTERN}|$)|{_WORD_START_PATTERN}(?:\]|!|{_MESSAGE_SUFFIX_PATTERN}))",
    rf"Exception(?<=\wException)(?:{_MESSAGE_SUFFIX_PATTERN}|$)",
    rf"error{_WORD_START_PATTERN}(?:\]|!|(?:\[\w+\])?{_MESSAGE_SUFFIX_PATTERN})",
    rf"ERROR{_UPPERCASE_SUFFIX_PATTERN}",
    rf"FATAL{_UPPERCASE_SUFFIX_PATTERN}",
    rf"fatal{_WORD_START_PATTERN}{_MESSAGE_SUFFIX_PATTERN}",
    r"CRITICAL(?<!\w.{8})[\]:\s]",
    r"npm (?:ERR!|error)",
    r"CUDA (?:error|out of memory)",
    r"CUDNN_STATUS_\w",
    r"NCCL (?:error|WARN)",
    r"ut of memory",
    r"ut Of Memory",
    r"OOM-?[Kk]ill",
    r"egmentation fault",
    r"ore dumped",
    r"Bus error",
    r"Illegal instruction",
    r"ssertion .{0,200}failed",
    r"Killed(?<![^:\s].{6})(?=$|\s|:)",
    r"panic:(?<!.{7})",
    r"panicked at",
    r"command not found",
    r"No such file or dir",
    r"ermission denied",
    r"No space left",
    r"Connection refused",
    r"exit(?:ed with)? (?:code|status):? [1-9]",
)

FIRST_ERROR_PATTERN = "|".join(_ERROR_PATTERNS)
ERROR_LITERALS = tuple(sorted({found[0].encode() for part in _ERROR_PATTERNS if (found := re.match(r"[\w ]+", part))}))
"""Every match contains one of these."""
