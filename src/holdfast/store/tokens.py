"""API tokens. Only a SHA-256 of the secret is kept: tokens are long and random, so nothing slower is needed."""

from __future__ import annotations

import hashlib
from datetime import datetime
from typing import Any

from sqlalchemy import ColumnElement, Connection, Row, and_, delete, func, insert, select, update

from holdfast.core.errors import NotFound
from holdfast.core.messages import msg
from holdfast.core.records import Token, User

from .people import get_user
from .rows import instant, maybe_instant, maybe_micros, micros, storable
from .tables import tokens


def hash_secret(secret: str) -> str:
    return hashlib.sha256(secret.encode("utf-8", "replace")).hexdigest()


def create_token(conn: Connection, *, token: Token, secret_hash: str) -> None:
    """`secret_hash` comes from `hash_secret`. NotFound when there is no such user."""
    if get_user(conn, token.user) is None:
        raise NotFound(msg("There is no user {user}", user=token.user))
    values = {
        "id": token.id,
        "user_name": token.user,
        "name": token.name,
        "secret_hash": secret_hash,
        "created_at": micros(token.created_at),
        "expires_at": maybe_micros(token.expires_at),
        "last_used_at": maybe_micros(token.last_used_at),
    }
    conn.execute(insert(tokens), values)


def token_user(conn: Connection, token_id: str) -> tuple[str, Token, User] | None:
    """The hash to compare with, the token and its owner. Expiry and `disabled` are the caller's to look at."""
    row = conn.execute(select(tokens).where(tokens.c.id == storable(token_id))).one_or_none()
    user = get_user(conn, row.user_name) if row is not None else None
    return (row.secret_hash, _token_of(row), user) if row is not None and user is not None else None


def list_tokens(conn: Connection, user: str) -> list[Token]:
    """Newest first."""
    newest_first = (tokens.c.created_at.desc(), tokens.c.id)
    rows = conn.execute(select(tokens).where(tokens.c.user_name == storable(user)).order_by(*newest_first))
    return [_token_of(row) for row in rows]


def delete_token(conn: Connection, token_id: str) -> bool:
    """Whether there was one."""
    return bool(conn.execute(delete(tokens).where(tokens.c.id == storable(token_id))).rowcount)


def delete_tokens_of(conn: Connection, user: str) -> int:
    """How many there were."""
    return conn.execute(delete(tokens).where(tokens.c.user_name == storable(user))).rowcount


def delete_tokens_like(conn: Connection, user: str, begins: str, *, keep: str = "") -> int:
    """Those whose ids begin so, but for the one with the id `keep`; how many there were. All at once: others wait."""
    ended = delete(tokens).where(_like(user, begins), tokens.c.id != storable(keep))
    return conn.execute(ended).rowcount


def delete_least_used(conn: Connection, user: str, begins: str, most: int) -> int:
    """Those beyond `most` that were not used for the longest time; how many there were."""
    used = func.coalesce(tokens.c.last_used_at, tokens.c.created_at)
    kept = select(used).where(_like(user, begins)).order_by(used.desc()).offset(most - 1).limit(1).scalar_subquery()
    return conn.execute(delete(tokens).where(_like(user, begins), used < kept)).rowcount


def count_tokens_like(conn: Connection, user: str, begins: str) -> int:
    return conn.execute(select(func.count()).select_from(tokens).where(_like(user, begins))).scalar_one()


def _like(user: str, begins: str) -> ColumnElement[bool]:
    return and_(tokens.c.user_name == storable(user), tokens.c.id.startswith(begins, autoescape=True))


def delete_expired(conn: Connection, before: datetime, user: str | None = None) -> int:
    """Everybody's, or those of one user; how many there were."""
    ended = delete(tokens).where(tokens.c.expires_at < micros(before))
    return conn.execute(ended if user is None else ended.where(tokens.c.user_name == storable(user))).rowcount


def touch_token(conn: Connection, token_id: str, at: datetime) -> None:
    """Note its use. Callers do this now and then, not for every request."""
    conn.execute(update(tokens).where(tokens.c.id == storable(token_id)).values(last_used_at=micros(at)))


def _token_of(row: Row[Any]) -> Token:
    return Token(
        id=row.id,
        user=row.user_name,
        name=row.name,
        created_at=instant(row.created_at),
        expires_at=maybe_instant(row.expires_at),
        last_used_at=maybe_instant(row.last_used_at),
    )
