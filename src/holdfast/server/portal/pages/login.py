"""Login by password or by a one-time link, and logout."""

from __future__ import annotations

from dataclasses import dataclass
from urllib.parse import quote

from starlette.responses import Response

from holdfast.core.errors import NotLoggedIn, UserError
from holdfast.core.messages import msg
from holdfast.services.errors import TooManyRequests
from holdfast.services.people.tokens import NewToken

from ... import sessions
from ...auth import get_client_address
from ..forms import Form
from ..preferences import read_preferences, set_preference_cookies, sync_preferences_at_login
from ..routes import build_form_route, build_page_route
from ..visit import Visit, sanitize_path


@dataclass(frozen=True, slots=True, kw_only=True)
class LoginPage:
    here: str  # this page's path, to return to after a language choice
    next: str = "/"
    user: str = ""
    problem: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class LoginLinkPage:
    here: str
    code: str
    user: str  # the user to log in as
    now: str  # the current user; empty: not logged in


async def show_login(visit: Visit) -> Response:
    code = visit.query.get("code")
    if code:
        return await _show_login_link(visit, code)
    target = sanitize_path(visit.query.get("next", "/"))
    return (
        visit.redirect(target)
        if visit.actor
        else await visit.render_response("login.html", LoginPage(next=target, here=_build_login_path(target)))
    )


async def _show_login_link(visit: Visit, code: str) -> Response:
    """Show a confirmation, so that link prefetching and requests of other sites do not log in."""
    try:
        user = await visit.services.codes.find_code_user(code)
    except NotLoggedIn:
        return await _show_login_problem(visit, "/", _build_link_used_error())
    now = visit.actor.name if visit.actor else ""
    here = f"/login?code={quote(code, safe='')}"
    return await visit.render_response("login_link.html", LoginLinkPage(here=here, code=code, user=user, now=now))


async def log_in(visit: Visit, form: Form) -> Response:
    target = sanitize_path(form.get_text("next", "/"))
    user = form.get_text("user")
    try:
        made = await visit.services.tokens.login(
            user,
            form.get_raw_text("password"),
            get_client_address(visit.request),
            device=sessions.read_device_cookie(visit.request),
        )
    except (NotLoggedIn, TooManyRequests) as error:
        return await _show_login_problem(visit, target, error, user)
    return await _start_session(visit, made, target)


async def log_in_by_link(visit: Visit, form: Form) -> Response:
    try:
        made = await visit.services.codes.redeem_login_code(form.get_text("code"))
    except NotLoggedIn:
        return await _show_login_problem(visit, "/", _build_link_used_error())
    return await _start_session(visit, made, "/")


def _build_link_used_error() -> NotLoggedIn:
    return NotLoggedIn(
        msg("This link has expired or was already used"),
        hint=msg("Run `holdfast portal` for a new link, or log in with a password."),
    )


async def _show_login_problem(visit: Visit, target: str, error: UserError, user: str = "") -> Response:
    here, problem = _build_login_path(target), visit.translate_error(error)
    found = LoginPage(next=target, here=here, user=user[:200], problem=problem)
    return await visit.render_response("login.html", found, 401 if isinstance(error, NotLoggedIn) else 429)


async def _start_session(visit: Visit, made: NewToken, target: str) -> Response:
    """Start a session of this browser; an earlier one ends."""
    if visit.session is not None and visit.actor is not None:
        await visit.services.tokens.logout(visit.session)
    response = visit.redirect(target)
    sessions.set_session_cookie(visit.request, response, made)
    device = await visit.services.tokens.issue_device_token(made.token.user, sessions.read_device_cookie(visit.request))
    sessions.set_device_cookie(visit.request, response, device)
    await sync_preferences_at_login(visit, response, made.token.user)
    return response


async def log_out(visit: Visit, form: Form) -> Response:
    if visit.session:
        await visit.services.tokens.logout(visit.session)
    response = visit.redirect("/login", visit.translate_text("You are logged out."))
    sessions.delete_session_cookie(visit.request, response)
    return response


async def save_preferences(visit: Visit, form: Form) -> Response:
    """Save language or theme, also before login."""
    chosen = read_preferences(form)
    if visit.actor is not None:
        await visit.services.users.update_preferences(visit.actor, chosen)
    response = visit.redirect(sanitize_path(form.get_text("next", "/")))
    set_preference_cookies(visit, response, chosen)
    return response


def _build_login_path(target: str) -> str:
    return "/login" if target == "/" else f"/login?next={quote(target, safe='/')}"


routes = [
    build_page_route("/login", show_login, public=True),
    build_form_route("/login", log_in, public=True),
    build_form_route("/login/link", log_in_by_link, public=True),
    build_form_route("/logout", log_out),
    build_form_route("/me/preferences", save_preferences, public=True),
]
