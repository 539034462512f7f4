"""The code for `primehub config generate-token`, shown after login."""

from __future__ import annotations

from dataclasses import dataclass

from starlette.responses import Response

from holdfast.core.errors import NotLoggedIn
from holdfast.services.errors import TooManyRequests

from ...auth import get_client_address
from ...primehub.people.auth_flow import LOGIN_PATHS, TOKEN_NAME
from ...sessions import read_device_cookie
from ..forms import Form
from ..routes import build_form_route, build_page_route
from ..visit import Visit


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenCodePage:
    action: str = LOGIN_PATHS[0]
    user: str = ""  # as typed
    problem: str = ""
    code: str = ""
    token_name: str = TOKEN_NAME


async def show_code_form(visit: Visit) -> Response:
    return await visit.render_response("token_code.html", TokenCodePage())


async def issue_code(visit: Visit, form: Form) -> Response:
    codes, user = visit.services.codes, form.get_raw_text("username")
    if visit.actor is not None:
        return await visit.render_response(
            "token_code.html", TokenCodePage(code=await codes.issue_token_code_for_actor(visit.actor))
        )
    try:
        code = await codes.issue_token_code(
            user,
            form.get_raw_text("password"),
            get_client_address(visit.request),
            device=read_device_cookie(visit.request),
        )
    except (NotLoggedIn, TooManyRequests) as error:
        found = TokenCodePage(user=user[:200], problem=visit.translate_error(error))
        return await visit.render_response("token_code.html", found, 401 if isinstance(error, NotLoggedIn) else 429)
    return await visit.render_response("token_code.html", TokenCodePage(code=code, user=user[:200]))


routes = [
    *(build_page_route(path, show_code_form, public=True) for path in LOGIN_PATHS),
    *(build_form_route(path, issue_code, public=True) for path in LOGIN_PATHS),
]
