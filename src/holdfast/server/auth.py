"""Who is asking: a bearer token in the Authorization header, or the browser's login."""

from __future__ import annotations

from typing import Annotated, cast

from fastapi import Depends, Request
from starlette.requests import HTTPConnection

from holdfast.core.access import Actor
from holdfast.core.errors import NotLoggedIn
from holdfast.core.messages import msg
from holdfast.services import Services

from .sessions import CSRF_HEADER, SAFE, check_origin, check_proof, session_of


def services_of(request: Request) -> Services:
    return cast(Services, request.app.state.services)


def bearer_token(request: HTTPConnection) -> str:
    """The text of the token; NotLoggedIn when there is none."""
    found = [value for name, value in request.scope["headers"] if name == b"authorization"]
    if len(found) == 1:
        scheme, _, token = found[0].partition(b" ")
        if scheme.lower() == b"bearer" and token.isascii():
            return cast(bytes, token).decode("ascii").strip()
    raise NotLoggedIn(
        msg("Log in first"),
        hint=msg(
            "Send the header `Authorization: Bearer <token>`; `holdfast login` or `holdfast token create` gives one."
        ),
    )


def token_of(request: HTTPConnection) -> str:
    """Who asks: by header, or by the browser's login where our own page asks."""
    if "authorization" in request.headers:
        return bearer_token(request)
    session = session_of(request)
    if session is None:
        return bearer_token(request)  # which says what is missing
    if request.headers.get("sec-fetch-site", "same-origin") not in ("same-origin", "none"):
        raise NotLoggedIn(msg("Another site asked for this; its requests are not taken for yours"))
    if request.scope.get("method", "GET") not in SAFE:
        check_origin(request)
        check_proof(session, request.headers.get(CSRF_HEADER, ""))
    return session


async def actor_of(request: Request) -> Actor:
    return await services_of(request).tokens.actor(token_of(request))


def address_of(request: Request) -> str:
    """Where the request came from. A header says so only where a trusted proxy wrote it: see forwarded."""
    return request.client.host if request.client else "unknown"


Caller = Annotated[Actor, Depends(actor_of)]
Ask = Annotated[Services, Depends(services_of)]
