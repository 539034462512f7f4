"""What clients of OpenPAI send: JSON (also under text/plain), forms with nested[fields], or plain text."""

from __future__ import annotations

import json
import math
from typing import Any, NoReturn

from starlette.requests import Request

from .errors import PaiError
from .forms import parse_form


async def read_text(request: Request) -> str:
    """The body as it came."""
    try:
        return (await request.body()).decode("utf-8")
    except UnicodeDecodeError:
        raise PaiError(400, "InvalidParametersError", "The body is not UTF-8 text.") from None


async def read_body(request: Request) -> Any:
    """The value a body stands for; an empty one is an empty object."""
    text = await read_text(request)
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if not text.strip():
        return {}
    if kind == "application/x-www-form-urlencoded" and not text.lstrip().startswith("{"):
        return parse_form(text)
    return parse_json(text)


def parse_json(text: str) -> Any:
    try:
        found = json.loads(text, parse_constant=_refuse, parse_float=_finite)
        if "\\u" in text:
            json.dumps(found, ensure_ascii=False).encode()  # fails for half a character, which no database takes
    except (ValueError, RecursionError):
        raise PaiError(400, "InvalidParametersError", "The body is not JSON.") from None
    return found


def _finite(digits: str) -> float:
    """1e999 would be infinity, which no JSON can say when it is read again."""
    number = float(digits)
    return number if math.isfinite(number) else _refuse(digits)


def _refuse(constant: str) -> NoReturn:
    raise ValueError(constant)
