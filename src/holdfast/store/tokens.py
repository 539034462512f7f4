"""API tokens. Only a SHA-256 of the secret is stored: tokens are long and random, so no slower hash is needed."""

from __future__ import annotations

import hashlib
from datetime import datetime

from sqlalchemy import ColumnElement, Connection, and_, delete, func, insert, select, update

from holdfast.core.errors import NotFound
from holdfast.core.messages import msg
from holdfast.core.records import Token, User

from .mapping import record_from_row, record_to_row
from .people import get_user
from .rows import make_storable, to_micros
from .tables import tokens


def hash_secret(secret: str) -> str:
    return hashlib.sha256(secret.encode("utf-8", "replace")).hexdigest()


def create_token(conn: Connection, *, token: Token, secret_hash: str) -> None:
    """Create a token. `secret_hash` comes from `hash_secret`. NotFound if the user does not exist."""
    if get_user(conn, token.user) is None:
        raise NotFound(msg("User {user} not found", user=token.user))
    conn.execute(insert(tokens), record_to_row(token, tokens, secret_hash=secret_hash))


def load_token_with_owner(conn: Connection, token_id: str) -> tuple[str, Token, User] | None:
    """Return the hash, the token and its owner. The caller checks expiry and `disabled`."""
    row = conn.execute(select(tokens).where(tokens.c.id == make_storable(token_id))).one_or_none()
    user = get_user(conn, row.user_name) if row is not None else None
    return (row.secret_hash, record_from_row(Token, row), user) if row is not None and user is not None else None


def list_tokens(conn: Connection, user: str) -> list[Token]:
    """Return a user's tokens, newest first."""
    newest_first = (tokens.c.created_at.desc(), tokens.c.id)
    rows = conn.execute(select(tokens).where(tokens.c.user_name == make_storable(user)).order_by(*newest_first))
    return [record_from_row(Token, row) for row in rows]


def delete_token(conn: Connection, token_id: str) -> bool:
    """Delete a token; return whether it existed."""
    return bool(conn.execute(delete(tokens).where(tokens.c.id == make_storable(token_id))).rowcount)


def delete_user_tokens(conn: Connection, user: str) -> int:
    return conn.execute(delete(tokens).where(tokens.c.user_name == make_storable(user))).rowcount


def delete_tokens_by_prefix(conn: Connection, user: str, begins: str, *, keep: str = "") -> int:
    """Delete tokens by id prefix, except `keep`; return how many. In one statement, which blocks other writes."""
    ended = delete(tokens).where(_build_prefix_condition(user, begins), tokens.c.id != make_storable(keep))
    return conn.execute(ended).rowcount


def delete_least_used_tokens(conn: Connection, user: str, begins: str, most: int) -> int:
    """Delete the least recently used tokens beyond `most`; return how many."""
    used = func.coalesce(tokens.c.last_used_at, tokens.c.created_at)
    kept = (
        select(used)
        .where(_build_prefix_condition(user, begins))
        .order_by(used.desc())
        .offset(most - 1)
        .limit(1)
        .scalar_subquery()
    )
    return conn.execute(delete(tokens).where(_build_prefix_condition(user, begins), used < kept)).rowcount


def count_tokens_by_prefix(conn: Connection, user: str, begins: str) -> int:
    return conn.execute(
        select(func.count()).select_from(tokens).where(_build_prefix_condition(user, begins))
    ).scalar_one()


def _build_prefix_condition(user: str, begins: str) -> ColumnElement[bool]:
    return and_(tokens.c.user_name == make_storable(user), tokens.c.id.startswith(begins, autoescape=True))


def delete_expired_tokens(conn: Connection, before: datetime, user: str | None = None) -> int:
    ended = delete(tokens).where(tokens.c.expires_at < to_micros(before))
    return conn.execute(ended if user is None else ended.where(tokens.c.user_name == make_storable(user))).rowcount


def record_token_use(conn: Connection, token_id: str, at: datetime) -> None:
    """Record the last use. Callers do this occasionally, not for every request."""
    conn.execute(update(tokens).where(tokens.c.id == make_storable(token_id)).values(last_used_at=to_micros(at)))
