"""Error pages for internal errors and rejected requests. They do not use the database, which may have failed, and work
even when a template fails."""

from __future__ import annotations

import html
import logging

from starlette.requests import Request
from starlette.responses import Response

from holdfast.core.errors import UserError
from holdfast.core.messages import msg

from ..auth import get_services
from ..errors import STATUS_CODES
from .error_page import PROBLEM_TEMPLATE, ErrorPage, retarget_to_page_top
from .visit import create_visit

log = logging.getLogger(__name__)

INTERNAL_ERROR_MESSAGE = msg("Internal error in Holdfast")
INTERNAL_ERROR_HINT = msg(
    "Try again. If the error persists, give an admin the request ID. The server log has the details."
)


def build_error_page(request: Request, status: int, message: str, hint: str = "") -> Response:
    request_id = str(request.scope.get("holdfast.request_id", ""))
    try:
        return _render_error_page(request, status, message, hint, request_id)
    except Exception:
        log.exception("an error page failed", extra={"event": "internal-error", "request_id": request_id})
        return _build_plain_response(status, message, request_id)


def build_refusal_page(request: Request, error: UserError | None) -> Response:
    """Build the page for a rejected request; None: an internal error."""
    if error is None:
        return build_error_page(request, 500, INTERNAL_ERROR_MESSAGE, INTERNAL_ERROR_HINT)
    response = build_error_page(request, STATUS_CODES.get(error.code, 400), error.message, error.hint or "")
    if error.code == "too_large":
        response.headers["Connection"] = "close"  # the rest of the body is not read
    return response


def _render_error_page(request: Request, status: int, message: str, hint: str, request_id: str) -> Response:
    # Without the user, who would have to be read from the database.
    visit = create_visit(request, get_services(request))
    page = ErrorPage(
        title=visit.translate_text(msg("Request failed")),
        message=message,
        hint=hint,
        status=status,
        request_id=request_id,
    )
    template = PROBLEM_TEMPLATE if visit.wants_part else "fault.html"
    response = Response(visit.render(template, page), status, media_type="text/html")
    response.headers["Content-Security-Policy"] = visit.build_content_security_policy()
    if visit.wants_part:
        retarget_to_page_top(response)
    return response


def _build_plain_response(status: int, message: str, request_id: str) -> Response:
    body = f"<!doctype html><title>Holdfast</title><h1>{html.escape(message)}</h1><p>{html.escape(request_id)}</p>"
    return Response(body, status, media_type="text/html")
