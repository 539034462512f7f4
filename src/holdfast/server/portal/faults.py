"""Pages for what went wrong before, around or in spite of a page: our own mistakes, requests that the border refuses.
They ask nothing of the store, which may be what failed, and come out even when a template does not."""

from __future__ import annotations

import html
import logging

from starlette.requests import Request
from starlette.responses import Response

from holdfast.core.errors import UserError
from holdfast.core.messages import msg

from ..auth import services_of
from ..errors import STATUS
from .error_page import PART, ErrorPage, put_above
from .visit import visit_of

log = logging.getLogger(__name__)

OUR_MISTAKE = msg("Something went wrong in Holdfast itself")
WHAT_THEN = msg("Try again. If it stays, tell an admin the request id: the server's log has the details.")


def show_fault(request: Request, status: int, message: str, hint: str = "") -> Response:
    request_id = str(request.scope.get("holdfast.request_id", ""))
    try:
        return _show(request, status, message, hint, request_id)
    except Exception:
        log.exception("an error page failed", extra={"event": "internal-error", "request_id": request_id})
        return _plain(status, message, request_id)


def show_refusal(request: Request, error: UserError | None) -> Response:
    """For the border; None: our own mistake."""
    if error is None:
        return show_fault(request, 500, OUR_MISTAKE, WHAT_THEN)
    response = show_fault(request, STATUS.get(error.code, 400), error.message, error.hint or "")
    if error.code == "too_large":
        response.headers["Connection"] = "close"  # the rest of the body is not read
    return response


def _show(request: Request, status: int, message: str, hint: str, request_id: str) -> Response:
    visit = visit_of(request, services_of(request))  # whose it is would have to be asked of the store
    page = ErrorPage(
        title=visit.say(msg("That did not work")),
        message=message,
        hint=hint,
        status=status,
        request_id=request_id,
    )
    template = PART if visit.wants_part else "fault.html"
    response = Response(visit.render(template, page), status, media_type="text/html")
    response.headers["Content-Security-Policy"] = visit.policy()
    if visit.wants_part:
        put_above(response)
    return response


def _plain(status: int, message: str, request_id: str) -> Response:
    body = f"<!doctype html><title>Holdfast</title><h1>{html.escape(message)}</h1><p>{html.escape(request_id)}</p>"
    return Response(body, status, media_type="text/html")
