"""For scripts: what the API said, in the visitor's language."""

from __future__ import annotations

import json

from starlette.responses import JSONResponse, Response

from holdfast.core.errors import UserError
from holdfast.core.messages import from_data

from ..routes import page
from ..visit import Visit

MAX_SIZE = 16_000  # characters


async def show_told(visit: Visit) -> Response:
    """?message= and ?hint= of an error, as the API's `message_data` and `hint_data`, or as plain texts."""
    query = visit.request.query_params
    message, hint = (_read(query.get(name, "")) for name in ("message", "hint"))
    return JSONResponse({"text": visit.tell_error(UserError(message, hint=hint or None))})


def _read(text: str) -> str:
    try:
        return from_data(json.loads(text)) if text.startswith("{") and len(text) <= MAX_SIZE else text[:MAX_SIZE]
    except (ValueError, RecursionError):
        return text[:MAX_SIZE]


routes = [page("/told", show_told)]
