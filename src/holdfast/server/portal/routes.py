"""Routes of pages: who may come in, what proves a form, and errors as pages."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from urllib.parse import quote, urlsplit

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import Route

from holdfast.core.access import Actor
from holdfast.core.errors import Forbidden, NotFound, NotLoggedIn, UserError
from holdfast.core.messages import msg
from holdfast.services.refusals import store_unavailable
from holdfast.store.errors import StoreError

from .. import sessions
from ..auth import services_of
from ..errors import STATUS
from ..origin import public_origin
from .error_page import PART, ErrorPage, put_above
from .forms import Form, read_form
from .visit import Visit, own_path, visit_of

log = logging.getLogger(__name__)

Show = Callable[[Visit], Awaitable[Response]]
Act = Callable[[Visit, Form], Awaitable[Response]]


def page(path: str, show: Show, *, admin: bool = False, public: bool = False) -> Route:
    """GET of a page. Without login it leads to the login page, and back; with `public` anyone may look."""

    async def endpoint(request: Request) -> Response:
        visit = await _visit(request)
        try:
            _let_in(visit, admin=admin, public=public)
            return await show(visit)
        except NotLoggedIn:
            return _to_login(visit)
        except (UserError, StoreError) as error:
            return await show_error(visit, error)

    return Route(path, endpoint, methods=["GET"], name=f"{show.__module__}.{show.__name__}")


def act(path: str, do: Act, *, admin: bool = False, public: bool = False) -> Route:
    """POST of a form, which changes something: it must come from a page of ours, of this very login."""

    async def endpoint(request: Request) -> Response:
        visit = await _visit(request)
        try:
            sessions.check_origin(request)
            form = await read_form(request)
            _let_in(visit, admin=admin, public=public)
            if visit.session is not None and visit.actor is not None:
                given = request.headers.get(sessions.CSRF_HEADER) or form.text(sessions.CSRF_FIELD)
                sessions.check_proof(visit.session, given)
            return await do(visit, form)
        except NotLoggedIn as error:
            return await show_error(visit, error) if public else _to_login(visit)
        except (UserError, StoreError) as error:
            return await show_error(visit, error)

    return Route(path, endpoint, methods=["POST"], name=f"{do.__module__}.{do.__name__}")


async def _visit(request: Request) -> Visit:
    services = services_of(request)
    mark = services.changes.mark
    session, actor = await _known(request)
    return visit_of(request, services, actor=actor, session=session, mark=mark)


async def _known(request: Request) -> tuple[str | None, Actor | None]:
    session = sessions.session_of(request)
    if session is None:
        return None, None
    try:
        return session, await services_of(request).tokens.actor(session)
    except NotLoggedIn:
        return None, None


def _let_in(visit: Visit, *, admin: bool, public: bool) -> None:
    if visit.actor is None and not public:
        raise NotLoggedIn(msg("Log in first"))
    if admin and not visit.who.admin:
        raise NotFound(msg("There is nothing at this address"))  # whoever may not see it need not know of it


def _to_login(visit: Visit) -> Response:
    """A page is come back to; what a form would have done is not done later by surprise."""
    url = visit.request.url
    back = url.path + (f"?{url.query}" if url.query else "") if visit.request.method == "GET" else "/"
    target = "/login" if back == "/" else f"/login?next={quote(back, safe='/')}"
    if visit.wants_part:
        return Response(status_code=204, headers={"HX-Redirect": "/login"})
    response = RedirectResponse(target, 303)
    if sessions.session_of(visit.request) is not None:
        sessions.end(visit.request, response)
    return response


# -- errors


async def show_error(visit: Visit, error: UserError | StoreError) -> Response:
    if isinstance(error, StoreError):
        log.error("the store could not do it", extra={"event": "store", "error": str(error)})
        error = store_unavailable(error, "Try again in a moment.")
    error = _for_people(error)
    status = STATUS.get(error.code, 400)
    found = ErrorPage(
        title=_title(visit, error),
        message=error.message,
        hint=error.hint or "",
        status=status,
        request_id=str(visit.request.scope.get("holdfast.request_id", "")),
        back=_came_from(visit),
    )
    if visit.wants_part:
        response = await visit.show(PART, found, status)
        put_above(response)
        return response
    return await visit.show("error.html", found, status)


def _for_people(error: UserError) -> UserError:
    """A job that one may not see is not there; whoever followed a link to one is told that this may be so."""
    if isinstance(error, NotFound) and error.message.startswith("There is no job "):
        return NotFound(msg("{message}, or you may not see it", message=error.message))
    return error


def _came_from(visit: Visit) -> str:
    """The page one was on, where a browser says so; not the one that does not work."""
    try:
        parts = urlsplit(visit.request.headers.get("referer", "")[:2000])
    except ValueError:
        return ""
    public = public_origin(visit.request).partition("://")[2]
    own = {visit.request.headers.get("host", "").lower(), *([public] if public else [])}
    if parts.netloc.lower() not in own or not parts.path:
        return ""
    path = own_path(parts.path + (f"?{parts.query}" if parts.query else ""))
    return "" if path == visit.here or parts.path == visit.request.url.path or path.startswith("/login") else path


def _title(visit: Visit, error: UserError) -> str:
    if isinstance(error, NotFound):
        return visit.say("Not found")
    if isinstance(error, Forbidden):
        return visit.say("Not allowed")
    return visit.say("That did not work")


async def show_missing(request: Request) -> Response:
    """For an address where there is nothing, to a browser."""
    visit = await _visit(request)
    return await show_error(visit, NotFound(msg("There is nothing at this address")))
