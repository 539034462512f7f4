"""Who is asking: a bearer token in the Authorization header."""

from __future__ import annotations

from typing import Annotated, cast

from fastapi import Depends, Request

from holdfast.core.access import Actor
from holdfast.core.errors import NotLoggedIn
from holdfast.services import Services


def services_of(request: Request) -> Services:
    return cast(Services, request.app.state.services)


def bearer_token(request: Request) -> str:
    """The text of the token; NotLoggedIn when there is none."""
    found = [value for name, value in request.scope["headers"] if name == b"authorization"]
    if len(found) == 1:
        scheme, _, token = found[0].partition(b" ")
        if scheme.lower() == b"bearer" and token.isascii():
            return cast(bytes, token).decode("ascii").strip()
    raise NotLoggedIn(
        "Log in first",
        hint="Send the header `Authorization: Bearer <token>`; `holdfast login` or `holdfast token create` gives one.",
    )


async def actor_of(request: Request) -> Actor:
    return await services_of(request).tokens.actor(bearer_token(request))


def address_of(request: Request) -> str:
    """Where the request came from; not what a header says of it, for anyone can write that."""
    return request.client.host if request.client else "unknown"


Caller = Annotated[Actor, Depends(actor_of)]
Ask = Annotated[Services, Depends(services_of)]
