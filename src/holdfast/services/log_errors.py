"""What the first error of a log looks like: one pattern, for everybody who jumps there.

Searched line by line, in a program of its own (log_matching). It would rather miss an unusual error than stop at a line
that only speaks of errors: "0 errors", "error rate", "mean squared error: 0.02", "no error" are none.
"""

from __future__ import annotations

_PARTS = (
    r"Traceback \(most recent call last\)",
    # ValueError: …, torch.cuda.OutOfMemoryError: …, java.lang.NullPointerException: …
    r"(?:^|[\s\"'(\[.])[A-Za-z_]\w*(?:Error|Exception)(?::(?!\s*[-+]?\d)|$)",
    # error: …, ERROR: …, [ERROR], fatal error: …, Error! but not a number after it: that is a measure.
    r"(?:^|[^\w.=-])(?:[Ee]rror|ERROR|[Ff]atal|FATAL|CRITICAL)(?:\]|!|(?:\[\w+\])?:(?!\s*(?:[-+]?[\d.]|[Nn]one|[Nn]o\b|null|$)))",
    r"\b(?:ERROR|FATAL|CRITICAL)\b(?:\s+[\[(a-zA-Z/])",
    r"npm (?:ERR!|error)",
    r"CUDA (?:error|out of memory)|CUDNN_STATUS_\w+|NCCL (?:error|WARN)|[Oo]ut of [Mm]emory|OOM-?[Kk]ill",
    r"[Ss]egmentation fault|[Cc]ore dumped|Bus error|Illegal instruction|[Aa]ssertion .{0,200}failed",
    r"(?:^|[:\s])Killed(?:$|\s|:)|^panic:|thread '.{0,80}' panicked",
    r"command not found|No such file or directory|[Pp]ermission denied|No space left on device|Connection refused",
    r"exit(?:ed with)? (?:code|status):? [1-9]",
)

FIRST_ERROR = "|".join(_PARTS)
