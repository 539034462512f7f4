"""One's own account: who one is, and the password."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from starlette.responses import Response

from holdfast.core.errors import Forbidden, UserError
from holdfast.core.records import User
from holdfast.services.people.users import UserChange
from holdfast.services.refusals import TooManyRequests

from ... import sessions
from ...auth import address_of
from ..forms import Form
from ..routes import act, page
from ..visit import Visit


@dataclass(frozen=True, slots=True, kw_only=True)
class MePage:
    user: User
    email: str
    logins: int  # of this user, in browsers and elsewhere
    tokens: int  # for programs
    keys: int
    problems: Mapping[str, str] = field(default_factory=dict)


async def show_me(visit: Visit) -> Response:
    return await _show(visit)


async def _show(visit: Visit, problems: Mapping[str, str] | None = None, email: str | None = None) -> Response:
    user = await visit.services.users.get(visit.who, visit.who.name)
    tokens = await visit.services.tokens.summary(visit.who)
    found = MePage(
        user=user,
        email=user.email if email is None else email,
        logins=tokens.logins,
        tokens=tokens.programs,
        keys=len(await visit.services.keys.list(visit.who)),
        problems=problems or {},
    )
    return await visit.show("me/account.html", found, 400 if problems else 200)


async def set_email(visit: Visit, form: Form) -> Response:
    email = form.text("email")
    try:
        await visit.services.users.update(visit.who, visit.who.name, UserChange(email=email))
    except UserError as error:
        return await _show(visit, {"email": visit.tell_error(error)}, email)
    return visit.go("/me", visit.say("Your email is changed."))


async def set_password(visit: Visit, form: Form) -> Response:
    """All logins end with it; this browser gets a new one."""
    new = form.raw("new")
    if new != form.raw("again"):
        return await _show(visit, {"again": visit.say("This is not the same as the new password.")})
    try:
        await visit.services.users.change_own_password(visit.who, form.raw("old"), new, address_of(visit.request))
    except (Forbidden, TooManyRequests) as error:
        return await _show(visit, {"old": visit.tell_error(error)})
    except UserError as error:
        return await _show(visit, {error.field or "new": visit.tell_error(error)})
    response = visit.go("/me", visit.say("Your password is changed. You are logged out everywhere else."))
    sessions.begin(visit.request, response, await visit.services.tokens.login_as(visit.who.name, "new password"))
    sessions.remember_device(visit.request, response, await visit.services.tokens.issue_device(visit.who.name))
    return response


async def end_logins(visit: Visit, form: Form) -> Response:
    await visit.services.tokens.end_logins(visit.who, keep=visit.session)
    return visit.go("/me", visit.say("You are logged out everywhere else."))


routes = [
    page("/me", show_me),
    act("/me/email", set_email),
    act("/me/password", set_password),
    act("/me/logins/end", end_logins),
]
