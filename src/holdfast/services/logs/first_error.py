"""The pattern that finds the first error of a log.

Searched line by line (`matching`). It prefers missing an unusual error to matching a line
that only mentions errors, such as "0 errors", "error rate", "mean squared error: 0.02", "no error".

Every part starts with plain letters before any look-behind, so that lines without them are skipped quickly, and
pieces of a log without them are not split into lines.
"""

from __future__ import annotations

import re

# "error:" must be followed by a text: a number is a measurement.
_TOLD = r":(?!\s*(?:[-+]?[\d.]|[Nn]one\b|null|$))"
_ALONE = r"(?<![\w.=-].{5})"  # a five-letter word starts here
_LOUD = rf"{_ALONE}(?:\]|!|{_TOLD}|\s+[\[(a-zA-Z/])"

_PARTS = (
    r"Traceback \(most recent",
    # ValueError: …, torch.cuda.OutOfMemoryError: …, Error: …, error[E0382]: …
    rf"Error(?:(?<=\wError)(?:{_TOLD}|$)|{_ALONE}(?:\]|!|{_TOLD}))",
    rf"Exception(?<=\wException)(?:{_TOLD}|$)",
    rf"error{_ALONE}(?:\]|!|(?:\[\w+\])?{_TOLD})",
    rf"ERROR{_LOUD}",
    rf"FATAL{_LOUD}",
    rf"fatal{_ALONE}{_TOLD}",
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

FIRST_ERROR = "|".join(_PARTS)
ERROR_SIGNS = tuple(sorted({found[0].encode() for part in _PARTS if (found := re.match(r"[\w ]+", part))}))
"""Every match contains one of these."""
