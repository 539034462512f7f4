"""Tokens and logins of a user, which admins can remove one by one."""

from __future__ import annotations

from dataclasses import dataclass
from urllib.parse import quote

from starlette.responses import Response

from holdfast.core.records import User

from ...forms import Form
from ...routes import build_form_route, build_page_route
from ...token_rows import TokenRow, list_token_rows, revoke_token
from ...visit import Visit

USER_TOKENS_PATH = "/admin/users/{name}/tokens"


@dataclass(frozen=True, slots=True, kw_only=True)
class UserTokensPage:
    user: User
    rows: tuple[TokenRow, ...]
    left_out: int
    path: str


async def show_user_tokens(visit: Visit) -> Response:
    user = await _load_token_user(visit)
    rows, left_out = await list_token_rows(visit, user.name)
    found = UserTokensPage(user=user, rows=rows, left_out=left_out, path=_build_tokens_path(user))
    return await visit.render_response("admin/user_tokens.html", found)


async def remove_user_token(visit: Visit, form: Form) -> Response:
    user = await _load_token_user(visit)
    return await revoke_token(visit, user.name, _build_tokens_path(user))


async def _load_token_user(visit: Visit) -> User:
    return await visit.services.users.get(visit.current_actor, visit.path_params["name"])


def _build_tokens_path(user: User) -> str:
    return USER_TOKENS_PATH.format(name=quote(user.name, safe=""))


routes = [
    build_page_route(USER_TOKENS_PATH, show_user_tokens, admin=True),
    build_form_route(USER_TOKENS_PATH + "/{id}/remove", remove_user_token, admin=True),
]
