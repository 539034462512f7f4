"""Routes of pages: access control, CSRF protection, and error pages."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from urllib.parse import quote, urlsplit

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import Route

from holdfast.core.access import Actor
from holdfast.core.errors import Forbidden, JobNotFound, NotFound, NotLoggedIn, UserError
from holdfast.core.messages import msg
from holdfast.services.errors import build_store_unavailable_error
from holdfast.store.errors import StoreError

from .. import sessions
from ..auth import get_services
from ..errors import STATUS_CODES
from ..origin import get_public_origin
from .error_page import PROBLEM_TEMPLATE, ErrorPage, retarget_to_page_top
from .forms import Form, read_form
from .visit import Visit, create_visit, sanitize_path

log = logging.getLogger(__name__)

PageHandler = Callable[[Visit], Awaitable[Response]]
FormHandler = Callable[[Visit, Form], Awaitable[Response]]


def build_page_route(path: str, show: PageHandler, *, admin: bool = False, public: bool = False) -> Route:
    """Build a GET route. Without a login it redirects to the login page and back; `public` needs no login."""

    async def endpoint(request: Request) -> Response:
        visit = await _create_visit(request)
        try:
            _require_access(visit, admin=admin, public=public)
            return await show(visit)
        except NotLoggedIn:
            return _redirect_to_login(visit)
        except (UserError, StoreError) as error:
            return await show_error(visit, error)

    return Route(path, endpoint, methods=["GET"], name=f"{show.__module__}.{show.__name__}")


def build_form_route(path: str, do: FormHandler, *, admin: bool = False, public: bool = False) -> Route:
    """Build a POST route for a form, which must come from a portal page of the same login."""

    async def endpoint(request: Request) -> Response:
        visit = await _create_visit(request)
        try:
            sessions.check_origin(request)
            form = await read_form(request)
            _require_access(visit, admin=admin, public=public)
            if visit.session is not None and visit.actor is not None:
                given = request.headers.get(sessions.CSRF_HEADER) or form.get_text(sessions.CSRF_FIELD)
                sessions.check_csrf_token(visit.session, given)
            return await do(visit, form)
        except NotLoggedIn as error:
            return await show_error(visit, error) if public else _redirect_to_login(visit)
        except (UserError, StoreError) as error:
            return await show_error(visit, error)

    return Route(path, endpoint, methods=["POST"], name=f"{do.__module__}.{do.__name__}")


def build_redirect_route(path: str, target: str, *, admin: bool = False) -> Route:
    """Build a GET route that redirects to another page of the portal."""

    async def redirect_to_target(visit: Visit) -> Response:
        return visit.redirect(target)

    return build_page_route(path, redirect_to_target, admin=admin)


async def _create_visit(request: Request) -> Visit:
    services = get_services(request)
    mark = services.changes.mark
    session, actor = await _find_session_actor(request)
    return create_visit(request, services, actor=actor, session=session, mark=mark)


async def _find_session_actor(request: Request) -> tuple[str | None, Actor | None]:
    session = sessions.read_session_cookie(request)
    if session is None:
        return None, None
    try:
        return session, await get_services(request).tokens.resolve_actor(session)
    except NotLoggedIn:
        return None, None


def _require_access(visit: Visit, *, admin: bool, public: bool) -> None:
    if visit.actor is None and not public:
        raise NotLoggedIn(msg("Log in first"))
    if admin and not visit.current_actor.admin:
        raise NotFound(msg("Not found: no resource has this URL"))  # hide that the page exists


def _redirect_to_login(visit: Visit) -> Response:
    """Redirect to the login page. After login the page is shown again, but a form is not submitted again."""
    url = visit.request.url
    back = url.path + (f"?{url.query}" if url.query else "") if visit.request.method == "GET" else "/"
    target = "/login" if back == "/" else f"/login?next={quote(back, safe='/')}"
    if visit.wants_part:
        return Response(status_code=204, headers={"HX-Redirect": "/login"})
    response = RedirectResponse(target, 303)
    if sessions.read_session_cookie(visit.request) is not None:
        sessions.delete_session_cookie(visit.request, response)
    return response


# -- errors


async def show_error(visit: Visit, error: UserError | StoreError) -> Response:
    if isinstance(error, StoreError):
        log.error("database error", extra={"event": "store", "error": str(error)})
        error = build_store_unavailable_error(error, "Try again in a moment.")
    error = _explain_not_found(error)
    status = STATUS_CODES.get(error.code, 400)
    found = ErrorPage(
        title=_get_error_title(visit, error),
        message=error.message,
        hint=error.hint or "",
        status=status,
        request_id=str(visit.request.scope.get("holdfast.request_id", "")),
        back=_get_referring_page(visit),
    )
    if visit.wants_part:
        response = await visit.render_response(PROBLEM_TEMPLATE, found, status)
        retarget_to_page_top(response)
        return response
    return await visit.render_response("error.html", found, status)


def _explain_not_found(error: UserError) -> UserError:
    """Add a hint to a missing job: it may exist, but not be visible to this user."""
    if isinstance(error, JobNotFound):
        return NotFound(msg("{message}, or you do not have permission to view it", message=error.message))
    return error


def _get_referring_page(visit: Visit) -> str:
    """Return the previous page from the Referer header, unless it is the failed one."""
    try:
        parts = urlsplit(visit.request.headers.get("referer", "")[:2000])
    except ValueError:
        return ""
    public = get_public_origin(visit.request).partition("://")[2]
    own = {visit.request.headers.get("host", "").lower(), *([public] if public else [])}
    if parts.netloc.lower() not in own or not parts.path:
        return ""
    path = sanitize_path(parts.path + (f"?{parts.query}" if parts.query else ""))
    return (
        "" if path == visit.current_path or parts.path == visit.request.url.path or path.startswith("/login") else path
    )


def _get_error_title(visit: Visit, error: UserError) -> str:
    if isinstance(error, NotFound):
        return visit.translate_text("Not found")
    if isinstance(error, Forbidden):
        return visit.translate_text("Access denied")
    return visit.translate_text("Request failed")


async def show_not_found(request: Request) -> Response:
    """Show the page for an unknown path."""
    visit = await _create_visit(request)
    return await show_error(visit, NotFound(msg("Not found: no resource has this URL")))
