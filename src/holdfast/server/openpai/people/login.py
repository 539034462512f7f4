"""Login and logout."""

from __future__ import annotations

from starlette.responses import Response

from holdfast.core.errors import NotLoggedIn
from holdfast.server.auth import get_client_address
from holdfast.server.responses import respond_json
from holdfast.server.sessions import read_device_cookie

from ..auth import read_token
from ..call import Call
from ..endpoints import AccessLevel, endpoint
from ..errors import PaiError
from ..values import require_text


@endpoint(
    "POST",
    "/v1/authn/basic/login",
    "/v2/authn/basic/login",
    "/v1/token",
    "/v2/tokens",
    who=AccessLevel.ANYONE,
    note="`expiration` is ignored: server.login_days sets the lifetime of a login.",
)
async def log_in(call: Call) -> Response:
    body = await call.read_json_object()
    user, password = require_text(body, "username"), require_text(body, "password")
    tokens = call.services.tokens
    try:
        made = await tokens.login(
            user, password, get_client_address(call.request), device=read_device_cookie(call.request)
        )
    except NotLoggedIn:
        if await tokens.has_user(user):
            raise PaiError(400, "IncorrectPasswordError", "Password is incorrect.") from None
        raise PaiError(400, "NoUserError", f"User {user[:100]} is not found.") from None
    actor = await tokens.resolve_actor(made.text)
    found = await call.services.users.get(actor, actor.name)
    return respond_json(
        {
            "user": actor.name,
            "token": made.text,
            "admin": actor.admin,
            "hasGitHubPAT": bool(found.extension.get("githubPAT")),
        }
    )


@endpoint("DELETE", "/v1/authn/basic/logout", "/v2/authn/basic/logout", note="Revokes the token of the request.")
async def log_out(call: Call) -> Response:
    await call.services.tokens.logout(read_token(call.request))
    return respond_json({"message": "Logout successfully"})
