"""JSON from clients that can be stored and written again."""

from __future__ import annotations

import json
import math
from typing import Any, NoReturn


def parse_strict_json(text: str) -> Any:
    """Parse JSON; raise ValueError also for nesting that is too deep, infinity, NaN and lone surrogates."""
    try:
        found = json.loads(text, parse_constant=_reject_constant, parse_float=_parse_finite_float)
        if "\\u" in text:
            json.dumps(found, ensure_ascii=False).encode()  # fails for a lone surrogate, which databases reject
    except RecursionError:
        raise ValueError("nested too deeply") from None
    return found


def _parse_finite_float(digits: str) -> float:
    """Reject numbers such as 1e999: infinity cannot be written as JSON again."""
    number = float(digits)
    return number if math.isfinite(number) else _reject_constant(digits)


def _reject_constant(constant: str) -> NoReturn:
    raise ValueError(constant)
