"""Rows of token lists: your own tokens and, for admins, those of other users."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime

from starlette.responses import Response

from holdfast.core.records import Token
from holdfast.services.people.access_tokens import get_token_kind

from .visit import Visit

MAX_SHOWN_TOKENS = 500


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenRow:
    token: Token
    kind: str  # api, login, machine
    here: bool  # the login of this browser
    ended: bool


async def list_token_rows(visit: Visit, user: str) -> tuple[tuple[TokenRow, ...], int]:
    """Return the rows, and how many tokens are not shown."""
    found = await visit.services.tokens.list(visit.current_actor, user)
    own = (await visit.services.tokens.get_token(visit.session or "")).id
    now = datetime.now(UTC)
    rows = tuple(_build_token_row(token, own, now) for token in found[:MAX_SHOWN_TOKENS])
    return rows, max(0, len(found) - MAX_SHOWN_TOKENS)


async def revoke_token(visit: Visit, user: str, path: str) -> Response:
    """Remove the token of the URL if it belongs to the user; redirect to the list."""
    token_id = visit.path_params["id"]
    if token_id in {token.id for token in await visit.services.tokens.list(visit.current_actor, user)}:
        await visit.services.tokens.delete(visit.current_actor, token_id)
    return visit.redirect(path, visit.translate_text("The token was revoked."))


def _build_token_row(token: Token, own: str, now: datetime) -> TokenRow:
    ended = token.expires_at is not None and token.expires_at <= now
    return TokenRow(token=token, kind=get_token_kind(token.id).name.lower(), here=token.id == own, ended=ended)
