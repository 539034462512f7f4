"""For scripts: what the API said, in the visitor's language."""

from __future__ import annotations

import json

from starlette.responses import JSONResponse, Response

from holdfast.core.errors import UserError
from holdfast.core.messages import Message, from_data

from ..routes import page
from ..visit import Visit

MAX_DATA_LENGTH = 16_000  # characters of a message as JSON
MAX_TEXT_LENGTH = 2000


async def show_told(visit: Visit) -> Response:
    """?message= and ?hint= of an error, as the API's `message_data` and `hint_data`, or as plain texts."""
    query = visit.request.query_params
    message, hint = (_read(query.get(name, "")) for name in ("message", "hint"))
    return JSONResponse({"text": visit.tell_error(UserError(message, hint=hint or None))})


def _read(text: str) -> str:
    try:
        said = from_data(json.loads(text)) if text.startswith("{") and len(text) <= MAX_DATA_LENGTH else text
    except (ValueError, RecursionError):
        said = text
    return said if isinstance(said, Message) else said[:MAX_TEXT_LENGTH]


routes = [page("/told", show_told)]
