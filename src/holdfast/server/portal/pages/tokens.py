"""One's own tokens: for programs, and the logins one has."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from starlette.responses import Response

from holdfast.core.errors import Forbidden, UserError
from holdfast.core.messages import msg
from holdfast.services.people.access_tokens import Kind, kind_of

from ...origin import origin_of
from ...primehub.errors import GRAPHQL
from ..forms import Form
from ..routes import act, page
from ..token_rows import TokenRow, token_rows
from ..visit import Visit

LIFETIMES = (7, 30, 90, 365)  # days; and for ever
DEFAULT_LIFETIME = 90


@dataclass(frozen=True, slots=True, kw_only=True)
class TokensPage:
    rows: tuple[TokenRow, ...]
    left_out: int
    lifetimes: tuple[int, ...] = LIFETIMES
    name: str = ""
    lifetime: str = str(DEFAULT_LIFETIME)
    problems: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class NewTokenPage:
    name: str
    text: str
    origin: str
    expires_at: datetime | None


async def show_tokens(visit: Visit) -> Response:
    return await visit.show("me/tokens.html", await _page(visit))


async def _page(
    visit: Visit, problems: Mapping[str, str] | None = None, name: str = "", lifetime: str = str(DEFAULT_LIFETIME)
) -> TokensPage:
    rows, left = await token_rows(visit, visit.who.name)
    return TokensPage(rows=rows, left_out=left, name=name, lifetime=lifetime, problems=problems or {})


async def make_token(visit: Visit, form: Form) -> Response:
    name, lifetime = form.text("name"), form.text("lifetime")
    try:
        made = await visit.services.tokens.create(visit.who, name=_named(name), expires_in=_length(lifetime))
    except UserError as error:
        problems = {error.field or "name": visit.tell_error(error)}
        return await visit.show("me/tokens.html", await _page(visit, problems, name, lifetime), 400)
    shown = NewTokenPage(
        name=made.token.name, text=made.text, origin=origin_of(visit.request), expires_at=made.token.expires_at
    )
    return await visit.show("me/new_token.html", shown)


def _named(name: str) -> str:
    if not name:
        raise UserError(msg("Say what it is for"), field="name")
    return name


def _length(text: str) -> timedelta | None:
    if text == "ever":
        return None
    if not text.isascii() or not text.isdigit() or not 0 < int(text[:6]) <= 3650:
        raise UserError(msg("Choose how long it lasts"), field="lifetime")
    return timedelta(days=int(text[:6]))


async def remove_token(visit: Visit, form: Form) -> Response:
    """One's own alone, also for admins: those of others are on the pages about users."""
    token_id = visit.request.path_params["id"]
    mine = {token.id for token in await visit.services.tokens.list(visit.who, visit.who.name)}
    if token_id in mine:
        await visit.services.tokens.delete(visit.who, token_id)
    return visit.go("/me/tokens", visit.say("It is worthless now."))


async def give_config(visit: Visit, form: Form) -> Response:
    """What the primehub command reads, for a token that was just shown."""
    text = form.raw("token")
    token = await visit.services.tokens.which(text)
    if token.user != visit.who.name or kind_of(token.id) is not Kind.API:
        raise Forbidden(msg("This token is not yours"))
    data = {"api-token": text, "endpoint": f"{origin_of(visit.request)}{GRAPHQL}"}
    if visit.who.groups:
        data["group"] = {"name": next(iter(sorted(visit.who.groups)))}  # type: ignore[assignment]
    headers = {"Content-Disposition": 'attachment; filename="config.json"'}
    return Response(json.dumps(data, indent=2, sort_keys=True) + "\n", headers=headers, media_type="application/json")


routes = [
    page("/me/tokens", show_tokens),
    act("/me/tokens", make_token),
    act("/me/tokens/config", give_config),
    act("/me/tokens/{id}/remove", remove_token),
]
