"""Logging in, by password or by a link that works once, and out."""

from __future__ import annotations

from dataclasses import dataclass
from urllib.parse import quote

from starlette.responses import Response

from holdfast.core.errors import NotLoggedIn, UserError
from holdfast.core.messages import msg
from holdfast.services.people.tokens import NewToken
from holdfast.services.refusals import TooManyRequests

from ... import sessions
from ...auth import address_of
from ..forms import Form
from ..preferences import bring_back, keep_in_browser, preferences_in
from ..routes import act, page
from ..visit import Visit, own_path


@dataclass(frozen=True, slots=True, kw_only=True)
class LoginPage:
    here: str  # this page's own address, for choosing a language on it
    next: str = "/"
    user: str = ""
    problem: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class LinkPage:
    here: str
    code: str
    user: str  # who one will be
    now: str  # who one is; empty: nobody yet


async def show_login(visit: Visit) -> Response:
    code = visit.request.query_params.get("code")
    if code:
        return await _show_link(visit, code)
    target = own_path(visit.request.query_params.get("next", "/"))
    return visit.go(target) if visit.actor else await visit.show("login.html", LoginPage(next=target, here=_at(target)))


async def _show_link(visit: Visit, code: str) -> Response:
    """Shown, not done: what fetches links ahead of people, and other sites' hidden requests, log nobody in."""
    try:
        user = await visit.services.codes.who(code)
    except NotLoggedIn:
        return await _refused(visit, "/", _spent())
    now = visit.actor.name if visit.actor else ""
    here = f"/login?code={quote(code, safe='')}"
    return await visit.show("login_link.html", LinkPage(here=here, code=code, user=user, now=now))


async def log_in(visit: Visit, form: Form) -> Response:
    target = own_path(form.text("next", "/"))
    user = form.text("user")
    try:
        made = await visit.services.tokens.login(
            user, form.raw("password"), address_of(visit.request), device=sessions.device_of(visit.request)
        )
    except (NotLoggedIn, TooManyRequests) as error:
        return await _refused(visit, target, error, user)
    return await _begin(visit, made, target)


async def log_in_by_link(visit: Visit, form: Form) -> Response:
    try:
        made = await visit.services.codes.log_in(form.text("code"))
    except NotLoggedIn:
        return await _refused(visit, "/", _spent())
    return await _begin(visit, made, "/")


def _spent() -> NotLoggedIn:
    return NotLoggedIn(
        msg("This link was used already, or is too old"),
        hint=msg("Get a new one with `holdfast portal`, or log in by password."),
    )


async def _refused(visit: Visit, target: str, error: UserError, user: str = "") -> Response:
    found = LoginPage(
        next=target,
        here=_at(target),
        user=user[:200],
        problem=visit.tell_error(error),
    )
    return await visit.show("login.html", found, 401 if isinstance(error, NotLoggedIn) else 429)


async def _begin(visit: Visit, made: NewToken, target: str) -> Response:
    """A login of this browser's own; one that it had before is over."""
    if visit.session is not None and visit.actor is not None:
        await visit.services.tokens.logout(visit.session)
    response = visit.go(target)
    sessions.begin(visit.request, response, made)
    device = await visit.services.tokens.issue_device(made.token.user, sessions.device_of(visit.request))
    sessions.remember_device(visit.request, response, device)
    await bring_back(visit, response, made.token.user)
    return response


async def log_out(visit: Visit, form: Form) -> Response:
    if visit.session:
        await visit.services.tokens.logout(visit.session)
    response = visit.go("/login", visit.say("You are logged out."))
    sessions.end(visit.request, response)
    return response


async def choose(visit: Visit, form: Form) -> Response:
    """Language or theme: also for whoever is about to log in."""
    chosen = preferences_in(form)
    if visit.actor is not None:
        await visit.services.users.set_preferences(visit.actor, chosen)
    response = visit.go(own_path(form.text("next", "/")))
    keep_in_browser(visit, response, chosen)
    return response


def _at(target: str) -> str:
    return "/login" if target == "/" else f"/login?next={quote(target, safe='/')}"


routes = [
    page("/login", show_login, public=True),
    act("/login", log_in, public=True),
    act("/login/link", log_in_by_link, public=True),
    act("/logout", log_out),
    act("/me/preferences", choose, public=True),
]
