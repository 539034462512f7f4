"""Logging in and out."""

from __future__ import annotations

from dataclasses import dataclass

from starlette.responses import Response

from holdfast.core.errors import NotLoggedIn
from holdfast.services.refusals import TooManyRequests

from ... import sessions
from ...auth import address_of
from ..forms import Form
from ..routes import act, page
from ..visit import Visit, own_path


@dataclass(frozen=True, slots=True, kw_only=True)
class LoginPage:
    next: str
    user: str = ""
    problem: str = ""


async def show_login(visit: Visit) -> Response:
    target = own_path(visit.request.query_params.get("next", "/"))
    return visit.go(target) if visit.actor else await visit.show("login.html", LoginPage(next=target))


async def log_in(visit: Visit, form: Form) -> Response:
    target = own_path(form.text("next", "/"))
    user = form.text("user")
    try:
        made = await visit.services.tokens.login(user, form.raw("password"), address_of(visit.request))
    except (NotLoggedIn, TooManyRequests) as error:
        found = LoginPage(next=target, user=user[:200], problem=visit.tell(error.message))
        return await visit.show("login.html", found, 401 if isinstance(error, NotLoggedIn) else 429)
    response = visit.go(target)
    sessions.begin(visit.request, response, made)
    return response


async def log_out(visit: Visit, form: Form) -> Response:
    if visit.session:
        await visit.services.tokens.logout(visit.session)
    response = visit.go("/login", visit.say("You are logged out."))
    sessions.end(visit.request, response)
    return response


routes = [
    page("/login", show_login, public=True),
    act("/login", log_in, public=True),
    act("/logout", log_out),
]
