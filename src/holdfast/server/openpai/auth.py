"""Authentication: a bearer token, or a user name with a token as password. Errors have OpenPAI's messages."""

from __future__ import annotations

import base64
import binascii

from starlette.requests import Request

from holdfast.core.access import Actor
from holdfast.core.errors import NotLoggedIn
from holdfast.services import Services

from .endpoints import AccessLevel
from .errors import PaiError, build_guest_denied_error

MAX_HEADER_LENGTH = 4096  # characters of the header's value


async def find_actor(request: Request, services: Services, who: AccessLevel) -> Actor | None:
    """Return the actor if `who` allows it; None for a guest where guests are allowed."""
    if who is AccessLevel.ANYONE:
        return None
    header = request.headers.get("authorization", "").strip()
    if not header:
        return _get_guest_actor(services, who)
    actor = await _find_token_owner(services, header)
    if actor.application and who in (AccessLevel.PERSON, AccessLevel.ADMIN):
        raise PaiError(403, "ForbiddenUserError", "Applications are not allowed to do this operation.")
    if who is AccessLevel.ADMIN and not actor.admin:
        raise PaiError(403, "ForbiddenUserError", "Non-admin is not allow to do this operation.")
    return actor


async def find_user_name(request: Request, services: Services) -> str:
    """Return the name of the user whose valid token the request has, or an empty text."""
    header = request.headers.get("authorization", "").strip()
    try:
        return (await _find_token_owner(services, header)).name if header else ""
    except (NotLoggedIn, PaiError):
        return ""


def read_token(request: Request) -> str:
    """Return the token of a request that `find_actor` accepted."""
    return _parse_credentials(request.headers.get("authorization", "").strip())[1]


def _get_guest_actor(services: Services, who: AccessLevel) -> Actor | None:
    guest = services.tokens.get_guest() if who is AccessLevel.READER else None
    if guest is None:
        raise build_guest_denied_error()
    return guest


async def _find_token_owner(services: Services, header: str) -> Actor:
    user, token = _parse_credentials(header)
    try:
        actor = await services.tokens.resolve_actor(token)
    except NotLoggedIn:
        raise _build_invalid_token_error() from None
    if user is not None and actor.name != user:
        raise _build_invalid_token_error()
    return actor


def _parse_credentials(header: str) -> tuple[str | None, str]:
    """Return the user's name, if the header has one, and the token."""
    scheme, _, value = header[:MAX_HEADER_LENGTH].partition(" ")
    value = value.strip()
    if scheme.lower() == "bearer" and value.isascii():
        return None, value
    if scheme.lower() == "basic":
        user, colon, token = _decode_basic_credentials(value).partition(":")
        if colon:
            return user, token.strip()
    raise _build_invalid_token_error()


def _decode_basic_credentials(value: str) -> str:
    try:
        return base64.b64decode(value, validate=True).decode("utf-8")
    except (binascii.Error, ValueError):
        raise _build_invalid_token_error() from None


def _build_invalid_token_error() -> PaiError:
    return PaiError(401, "UnauthorizedUserError", "Your token is invalid.")
