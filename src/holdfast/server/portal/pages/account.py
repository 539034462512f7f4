"""The account of the user, and its password."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from starlette.responses import Response

from holdfast.core.errors import Forbidden, UserError
from holdfast.core.records import User
from holdfast.services.errors import TooManyRequests
from holdfast.services.people.users import UserChange

from ... import sessions
from ...auth import get_client_address
from ..forms import Form
from ..routes import build_form_route, build_page_route
from ..visit import Visit


@dataclass(frozen=True, slots=True, kw_only=True)
class AccountPage:
    user: User
    email: str
    logins: int  # sessions in browsers and elsewhere
    tokens: int  # for programs
    keys: int
    problems: Mapping[str, str] = field(default_factory=dict)


async def show_account(visit: Visit, problems: Mapping[str, str] | None = None, email: str | None = None) -> Response:
    user = await visit.services.users.get(visit.current_actor, visit.current_actor.name)
    tokens = await visit.services.tokens.count_tokens(visit.current_actor)
    found = AccountPage(
        user=user,
        email=user.email if email is None else email,
        logins=tokens.logins,
        tokens=tokens.programs,
        keys=len(await visit.services.keys.list(visit.current_actor)),
        problems=problems or {},
    )
    return await visit.render_response("me/account.html", found, 400 if problems else 200)


async def set_email(visit: Visit, form: Form) -> Response:
    email = form.get_text("email")
    try:
        await visit.services.users.apply_change(visit.current_actor, visit.current_actor.name, UserChange(email=email))
    except UserError as error:
        return await show_account(visit, {"email": visit.translate_error(error)}, email)
    return visit.redirect("/me", visit.translate_text("Your email was changed."))


async def set_own_password(visit: Visit, form: Form) -> Response:
    """Set the password. All sessions end; this browser gets a new one."""
    new = form.get_raw_text("new")
    if new != form.get_raw_text("again"):
        return await show_account(visit, {"again": visit.translate_text("The passwords do not match.")})
    try:
        await visit.services.users.change_own_password(
            visit.current_actor, form.get_raw_text("old"), new, get_client_address(visit.request)
        )
    except (Forbidden, TooManyRequests) as error:
        return await show_account(visit, {"old": visit.translate_error(error)})
    except UserError as error:
        return await show_account(visit, {error.field or "new": visit.translate_error(error)})
    message = visit.translate_text("Your password was changed. You were logged out everywhere else.")
    response, tokens, user = visit.redirect("/me", message), visit.services.tokens, visit.current_actor.name
    sessions.set_session_cookie(visit.request, response, await tokens.login_authenticated_user(user, "new password"))
    sessions.set_device_cookie(visit.request, response, await tokens.issue_device_token(user))
    return response


async def end_other_logins(visit: Visit, form: Form) -> Response:
    await visit.services.tokens.delete_logins(visit.current_actor, keep=visit.session)
    return visit.redirect("/me", visit.translate_text("You were logged out everywhere else."))


routes = [
    build_page_route("/me", show_account),
    build_form_route("/me/email", set_email),
    build_form_route("/me/password", set_own_password),
    build_form_route("/me/logins/end", end_other_logins),
]
