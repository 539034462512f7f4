"""Logging in and out."""

from __future__ import annotations

from starlette.responses import Response

from holdfast.core.errors import NotLoggedIn
from holdfast.server.answers import answer
from holdfast.server.auth import address_of
from holdfast.server.sessions import device_of

from ..auth import token_of
from ..call import Call
from ..endpoints import Who, endpoint
from ..errors import PaiError
from ..values import need_text


@endpoint(
    "POST",
    "/v1/authn/basic/login",
    "/v2/authn/basic/login",
    "/v1/token",
    "/v2/tokens",
    who=Who.ANYONE,
    note="`expiration` is not looked at: server.login_days says how long a login lasts.",
)
async def log_in(call: Call) -> Response:
    body = await call.body()
    user, password = need_text(body, "username"), need_text(body, "password")
    tokens = call.services.tokens
    try:
        made = await tokens.login(user, password, address_of(call.request), device=device_of(call.request))
    except NotLoggedIn:
        if await tokens.knows(user):
            raise PaiError(400, "IncorrectPasswordError", "Password is incorrect.") from None
        raise PaiError(400, "NoUserError", f"User {user[:100]} is not found.") from None
    actor = await tokens.actor(made.text)
    found = await call.services.users.get(actor, actor.name)
    return answer(
        {
            "user": actor.name,
            "token": made.text,
            "admin": actor.admin,
            "hasGitHubPAT": bool(found.extension.get("githubPAT")),
        }
    )


@endpoint("DELETE", "/v1/authn/basic/logout", "/v2/authn/basic/logout", note="Ends the token it came with.")
async def log_out(call: Call) -> Response:
    await call.services.tokens.logout(token_of(call.request))
    return answer({"message": "Logout successfully"})
