"""Plain answers."""

from __future__ import annotations

import json
from typing import Any

from starlette.responses import Response


def answer(data: Any, status: int = 200) -> Response:
    """JSON; in ASCII, so that no text somebody made up can break it."""
    return Response(json.dumps(data, separators=(",", ":")).encode(), status, media_type="application/json")


def answer_text(text: str, media_type: str) -> Response:
    return Response(text.encode("utf-8", "replace"), media_type=f"{media_type}; charset=utf-8")


def answer_nothing() -> Response:
    return Response(status_code=204)
