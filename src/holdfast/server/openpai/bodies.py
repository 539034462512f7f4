"""Request bodies of OpenPAI clients: JSON (also as text/plain), forms with nested[fields], or plain text."""

from __future__ import annotations

from typing import Any

from starlette.requests import Request

from ..strict_json import parse_strict_json
from .errors import PaiError
from .forms import parse_form


async def read_body_text(request: Request) -> str:
    try:
        return (await request.body()).decode("utf-8")
    except UnicodeDecodeError:
        raise PaiError(400, "InvalidParametersError", "The request body is not UTF-8 text.") from None


async def read_body(request: Request) -> Any:
    """Return the value of a body; an empty body is an empty object."""
    text = await read_body_text(request)
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if not text.strip():
        return {}
    if kind == "application/x-www-form-urlencoded" and not text.lstrip().startswith("{"):
        return parse_form(text)
    return parse_json(text)


def parse_json(text: str) -> Any:
    try:
        return parse_strict_json(text)
    except ValueError:
        raise PaiError(400, "InvalidParametersError", "The request body is not valid JSON.") from None
