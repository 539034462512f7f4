"""A user's tokens and logins, for an admin who has to take one away and leave the rest as it is."""

from __future__ import annotations

from dataclasses import dataclass
from urllib.parse import quote

from starlette.responses import Response

from holdfast.core.records import User

from ...forms import Form
from ...routes import act, page
from ...token_rows import TokenRow, token_rows
from ...visit import Visit

PATH = "/admin/users/{name}/tokens"


@dataclass(frozen=True, slots=True, kw_only=True)
class UserTokensPage:
    user: User
    rows: tuple[TokenRow, ...]
    left_out: int
    path: str


async def show_tokens(visit: Visit) -> Response:
    user = await _named(visit)
    rows, left_out = await token_rows(visit, user.name)
    found = UserTokensPage(user=user, rows=rows, left_out=left_out, path=_path(user))
    return await visit.show("admin/user_tokens.html", found)


async def remove_token(visit: Visit, form: Form) -> Response:
    user, token_id = await _named(visit), visit.request.path_params["id"]
    if token_id in {token.id for token in await visit.services.tokens.list(visit.who, user.name)}:
        await visit.services.tokens.delete(visit.who, token_id)
    return visit.go(_path(user), visit.say("It is worthless now."))


async def _named(visit: Visit) -> User:
    return await visit.services.users.get(visit.who, visit.request.path_params["name"])


def _path(user: User) -> str:
    return PATH.format(name=quote(user.name, safe=""))


routes = [page(PATH, show_tokens, admin=True), act(PATH + "/{id}/remove", remove_token, admin=True)]
