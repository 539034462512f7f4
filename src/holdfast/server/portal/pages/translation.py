"""For scripts: messages of the API in the visitor's language."""

from __future__ import annotations

import json

from starlette.responses import JSONResponse, Response

from holdfast.core.errors import UserError
from holdfast.core.messages import Message, message_from_json

from ..routes import build_page_route
from ..visit import Visit

MAX_MESSAGE_JSON_LENGTH = 16_000  # characters of a message as JSON
MAX_TEXT_LENGTH = 2000


async def show_translation(visit: Visit) -> Response:
    """Translate ?message= and ?hint= of an error, given as `message_data` and `hint_data` or as plain text."""
    query = visit.query
    message, hint = (_parse_message(query.get(name, "")) for name in ("message", "hint"))
    return JSONResponse({"text": visit.translate_error(UserError(message, hint=hint or None))})


def _parse_message(text: str) -> str:
    try:
        message = (
            message_from_json(json.loads(text))
            if text.startswith("{") and len(text) <= MAX_MESSAGE_JSON_LENGTH
            else text
        )
    except (ValueError, RecursionError):
        message = text
    return message if isinstance(message, Message) else message[:MAX_TEXT_LENGTH]


routes = [build_page_route("/translation", show_translation)]
