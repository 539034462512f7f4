"""Simple HTTP responses."""

from __future__ import annotations

import json
from typing import Any

from starlette.responses import Response


def respond_json(data: Any, status: int = 200) -> Response:
    """Return a JSON response. It is ASCII, so that no user's text can break it."""
    return Response(json.dumps(data, separators=(",", ":")).encode(), status, media_type="application/json")


def respond_text(text: str, media_type: str) -> Response:
    return Response(text.encode("utf-8", "replace"), media_type=f"{media_type}; charset=utf-8")


def respond_empty() -> Response:
    return Response(status_code=204)
