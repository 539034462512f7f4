"""Pages for what went wrong before, around or in spite of a page: our own mistakes, requests that the border refuses.
They ask nothing of the store, which may be what failed, and come out even when a template does not."""

from __future__ import annotations

import html
import logging
from dataclasses import dataclass

from starlette.requests import Request
from starlette.responses import Response

from holdfast.core.errors import UserError

from ..auth import services_of
from ..errors import STATUS
from .languages import choose_language, words_in
from .rendering import render
from .visit import LANGUAGE_COOKIE, THEME_COOKIE, THEMES, Visit

log = logging.getLogger(__name__)

OUR_MISTAKE = "Something went wrong in Holdfast itself"
WHAT_THEN = "Try again. If it stays, tell an admin the request id: the server's log has the details."


@dataclass(frozen=True, slots=True, kw_only=True)
class FaultPage:
    title: str
    message: str
    hint: str
    status: int
    request_id: str


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
    visit = _nobodys_visit(request)
    page = FaultPage(
        title=visit.say("That did not work"),
        message=message,
        hint=hint,
        status=status,
        request_id=request_id,
    )
    template = "parts/_problem.html" if visit.wants_part else "fault.html"
    response = Response(render(template, visit, page), status, media_type="text/html")
    response.headers["Content-Security-Policy"] = visit.policy()
    if visit.wants_part:
        response.headers["HX-Retarget"], response.headers["HX-Reswap"] = "#messages", "innerHTML"
    return response


def _nobodys_visit(request: Request) -> Visit:
    """Whose it is would have to be asked of the store."""
    theme = request.cookies.get(THEME_COOKIE, "auto")
    code = choose_language(request.cookies.get(LANGUAGE_COOKIE), request.headers.get("accept-language", ""))
    return Visit(
        request=request,
        services=services_of(request),
        words=words_in(code),
        theme=theme if theme in THEMES else "auto",
        actor=None,
        session=None,
        mark="",
    )


def _plain(status: int, message: str, request_id: str) -> Response:
    body = f"<!doctype html><title>Holdfast</title><h1>{html.escape(message)}</h1><p>{html.escape(request_id)}</p>"
    return Response(body, status, media_type="text/html")
