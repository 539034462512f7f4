"""The code that `primehub config generate-token` asks for: shown to whoever is logged in, or logs in here."""

from __future__ import annotations

from dataclasses import dataclass

from starlette.responses import Response

from holdfast.core.errors import NotLoggedIn
from holdfast.services.refusals import TooManyRequests

from ...auth import address_of
from ...primehub.people.auth_flow import PAGES, TOKEN_NAME
from ...sessions import device_of
from ..forms import Form
from ..routes import act, page
from ..visit import Visit


@dataclass(frozen=True, slots=True, kw_only=True)
class CodePage:
    action: str = PAGES[0]
    user: str = ""  # as it was typed
    problem: str = ""
    code: str = ""
    token_name: str = TOKEN_NAME


async def show_form(visit: Visit) -> Response:
    return await visit.show("token_code.html", CodePage())


async def give_code(visit: Visit, form: Form) -> Response:
    codes, user = visit.services.codes, form.raw("username")
    if visit.actor is not None:
        return await visit.show("token_code.html", CodePage(code=await codes.issue_for(visit.actor)))
    try:
        code = await codes.issue(user, form.raw("password"), address_of(visit.request), device=device_of(visit.request))
    except (NotLoggedIn, TooManyRequests) as error:
        found = CodePage(user=user[:200], problem=visit.tell_error(error))
        return await visit.show("token_code.html", found, 401 if isinstance(error, NotLoggedIn) else 429)
    return await visit.show("token_code.html", CodePage(code=code, user=user[:200]))


routes = [
    *(page(path, show_form, public=True) for path in PAGES),
    *(act(path, give_code, public=True) for path in PAGES),
]
