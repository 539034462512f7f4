"""Authentication: a bearer token in the Authorization header, or the browser's login."""

from __future__ import annotations

from typing import Annotated, cast

from fastapi import Depends, Request
from starlette.requests import HTTPConnection

from holdfast.core.access import Actor
from holdfast.core.errors import NotLoggedIn
from holdfast.core.messages import msg
from holdfast.services import Services

from .sessions import CSRF_HEADER, SAFE_METHODS, check_csrf_token, check_origin, read_session_cookie


def get_services(request: Request) -> Services:
    return cast(Services, request.app.state.services)


def read_bearer_token(request: HTTPConnection) -> str:
    """Return the token, or raise NotLoggedIn when there is none."""
    found = [value for name, value in request.scope["headers"] if name == b"authorization"]
    if len(found) == 1:
        scheme, _, token = found[0].partition(b" ")
        if scheme.lower() == b"bearer" and token.isascii():
            return cast(bytes, token).decode("ascii").strip()
    raise NotLoggedIn(
        msg("Log in first"),
        hint=msg(
            "Send the header `Authorization: Bearer <token>`. Create a token with `holdfast login` or "
            "`holdfast token create`."
        ),
    )


def read_request_token(request: HTTPConnection) -> str:
    """Return the token from the header, or from the browser's login when one of our pages sent the request."""
    if "authorization" in request.headers:
        return read_bearer_token(request)
    session = read_session_cookie(request)
    if session is None:
        return read_bearer_token(request)  # raises an error that names the missing header
    if request.headers.get("sec-fetch-site", "same-origin") not in ("same-origin", "none"):
        raise NotLoggedIn(msg("Cross-site request denied; your login is accepted only from this server's own pages"))
    if request.scope.get("method", "GET") not in SAFE_METHODS:
        check_origin(request)
        check_csrf_token(session, request.headers.get(CSRF_HEADER, ""))
    return session


async def authenticate_request(request: Request) -> Actor:
    return await get_services(request).tokens.resolve_actor(read_request_token(request))


def get_client_address(request: Request) -> str:
    """Return the client's address. A header counts only if a trusted proxy wrote it: see forwarded."""
    return request.client.host if request.client else "unknown"


Caller = Annotated[Actor, Depends(authenticate_request)]
ServicesDep = Annotated[Services, Depends(get_services)]
