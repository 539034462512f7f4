"""API tokens and logins of the user."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from starlette.responses import Response

from holdfast.core.errors import Forbidden, UserError
from holdfast.core.messages import msg
from holdfast.services.people.access_tokens import TokenKind, get_token_kind

from ...origin import get_origin
from ...primehub.errors import GRAPHQL_PATH
from ..forms import Form
from ..routes import build_form_route, build_page_route
from ..token_rows import TokenRow, list_token_rows, revoke_token
from ..visit import Visit

LIFETIME_DAY_CHOICES = (7, 30, 90, 365)  # days; or unlimited
DEFAULT_LIFETIME_DAYS = 90


@dataclass(frozen=True, slots=True, kw_only=True)
class TokensPage:
    rows: tuple[TokenRow, ...]
    left_out: int
    lifetimes: tuple[int, ...] = LIFETIME_DAY_CHOICES
    name: str = ""
    lifetime: str = str(DEFAULT_LIFETIME_DAYS)
    problems: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class NewTokenPage:
    name: str
    text: str
    origin: str
    expires_at: datetime | None


async def show_tokens(visit: Visit) -> Response:
    return await visit.render_response("me/tokens.html", await _build_tokens_page(visit))


async def _build_tokens_page(
    visit: Visit, problems: Mapping[str, str] | None = None, name: str = "", lifetime: str = str(DEFAULT_LIFETIME_DAYS)
) -> TokensPage:
    rows, left = await list_token_rows(visit, visit.current_actor.name)
    return TokensPage(rows=rows, left_out=left, name=name, lifetime=lifetime, problems=problems or {})


async def create_token(visit: Visit, form: Form) -> Response:
    name, lifetime = form.get_text("name"), form.get_text("lifetime")
    try:
        made = await visit.services.tokens.create(
            visit.current_actor, name=_require_token_name(name), expires_in=_parse_lifetime(lifetime)
        )
    except UserError as error:
        problems = {error.field or "name": visit.translate_error(error)}
        return await visit.render_response(
            "me/tokens.html", await _build_tokens_page(visit, problems, name, lifetime), 400
        )
    shown = NewTokenPage(
        name=made.token.name, text=made.text, origin=get_origin(visit.request), expires_at=made.token.expires_at
    )
    return await visit.render_response("me/new_token.html", shown)


def _require_token_name(name: str) -> str:
    if not name:
        raise UserError(msg("Enter a description"), field="name")
    return name


def _parse_lifetime(text: str) -> timedelta | None:
    if text == "ever":
        return None
    if not text.isascii() or not text.isdigit() or not 0 < int(text[:6]) <= 3650:
        raise UserError(msg("Choose an expiration"), field="lifetime")
    return timedelta(days=int(text[:6]))


async def revoke_own_token(visit: Visit, form: Form) -> Response:
    """Remove a token of the user, also for admins: tokens of others are on the admin pages."""
    return await revoke_token(visit, visit.current_actor.name, "/me/tokens")


async def download_primehub_config(visit: Visit, form: Form) -> Response:
    """Download the configuration file of the primehub command for a new token."""
    text = form.get_raw_text("token")
    token = await visit.services.tokens.get_token(text)
    if token.user != visit.current_actor.name or get_token_kind(token.id) is not TokenKind.API:
        raise Forbidden(msg("This token belongs to another user"))
    data = {"api-token": text, "endpoint": f"{get_origin(visit.request)}{GRAPHQL_PATH}"}
    if visit.current_actor.groups:
        data["group"] = {"name": next(iter(sorted(visit.current_actor.groups)))}  # type: ignore[assignment]
    headers = {"Content-Disposition": 'attachment; filename="config.json"'}
    return Response(json.dumps(data, indent=2, sort_keys=True) + "\n", headers=headers, media_type="application/json")


routes = [
    build_page_route("/me/tokens", show_tokens),
    build_form_route("/me/tokens", create_token),
    build_form_route("/me/tokens/config", download_primehub_config),
    build_form_route("/me/tokens/{id}/remove", revoke_own_token),
]
