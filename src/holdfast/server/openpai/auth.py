"""Who asks: a bearer token, or a user with a token as password. Refused in the words OpenPAI's clients know."""

from __future__ import annotations

import base64
import binascii

from starlette.requests import Request

from holdfast.core.access import Actor
from holdfast.core.errors import NotLoggedIn
from holdfast.services import Services

from .endpoints import Who
from .errors import PaiError, no_guest

MAX_LENGTH = 4096  # of the header's value


async def find_actor(request: Request, services: Services, who: Who) -> Actor | None:
    """Whoever asks, if `who` lets them; None for a guest where guests may ask."""
    if who is Who.ANYONE:
        return None
    header = request.headers.get("authorization", "").strip()
    if not header:
        return _without_token(services, who)
    actor = await _holder(services, header)
    if actor.application and who in (Who.PERSON, Who.ADMIN):
        raise PaiError(403, "ForbiddenUserError", "Applications are not allowed to do this operation.")
    if who is Who.ADMIN and not actor.admin:
        raise PaiError(403, "ForbiddenUserError", "Non-admin is not allow to do this operation.")
    return actor


async def find_user(request: Request, services: Services) -> str:
    """The name of the user whose valid token came with the request; empty where none did."""
    header = request.headers.get("authorization", "").strip()
    try:
        return (await _holder(services, header)).name if header else ""
    except (NotLoggedIn, PaiError):
        return ""


def token_of(request: Request) -> str:
    """The text of the token that came with a request that `find_actor` let in."""
    return _credentials(request.headers.get("authorization", "").strip())[1]


def _without_token(services: Services, who: Who) -> Actor | None:
    guest = services.tokens.guest() if who is Who.READER else None
    if guest is None:
        raise no_guest()
    return guest


async def _holder(services: Services, header: str) -> Actor:
    user, token = _credentials(header)
    try:
        actor = await services.tokens.actor(token)
    except NotLoggedIn:
        raise _invalid() from None
    if user is not None and actor.name != user:
        raise _invalid()
    return actor


def _credentials(header: str) -> tuple[str | None, str]:
    """The user's name, where the header says one, and the token."""
    scheme, _, value = header[:MAX_LENGTH].partition(" ")
    value = value.strip()
    if scheme.lower() == "bearer" and value.isascii():
        return None, value
    if scheme.lower() == "basic":
        user, colon, token = _decode(value).partition(":")
        if colon:
            return user, token.strip()
    raise _invalid()


def _decode(value: str) -> str:
    try:
        return base64.b64decode(value, validate=True).decode("utf-8")
    except (binascii.Error, ValueError):
        raise _invalid() from None


def _invalid() -> PaiError:
    return PaiError(401, "UnauthorizedUserError", "Your token is invalid.")
