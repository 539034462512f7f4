"""Tokens as pages list them: one's own, and to admins those of others."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime

from holdfast.core.records import Token
from holdfast.services.people.access_tokens import kind_of

from .visit import Visit

MAX_SHOWN = 500


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenRow:
    token: Token
    kind: str  # api, login, machine
    here: bool  # the login of this very browser
    ended: bool


async def token_rows(visit: Visit, user: str) -> tuple[tuple[TokenRow, ...], int]:
    """And how many are left out."""
    found = await visit.services.tokens.list(visit.who, user)
    own = (await visit.services.tokens.which(visit.session or "")).id
    now = datetime.now(UTC)
    return tuple(_row(token, own, now) for token in found[:MAX_SHOWN]), max(0, len(found) - MAX_SHOWN)


def _row(token: Token, own: str, now: datetime) -> TokenRow:
    ended = token.expires_at is not None and token.expires_at <= now
    return TokenRow(token=token, kind=kind_of(token.id).name.lower(), here=token.id == own, ended=ended)
